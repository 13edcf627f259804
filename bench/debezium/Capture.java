import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import java.io.FileReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.MemoryOffsetBackingStore;

/**
 * Runs Debezium embedded with the properties of a file until so many rows have come, which it
 * drops, and prints how fast they came, from the first batch to the last.
 */
public class Capture implements DebeziumEngine.ChangeConsumer<ChangeEvent<SourceRecord, SourceRecord>> {
    static String offset;

    /** Offsets in memory, which begin with what the bench says. */
    public static class Offsets extends MemoryOffsetBackingStore {
        @Override
        public void start() {
            super.start();
            if (offset != null) {
                data.put(bytes("[\"bench\",{\"server\":\"bench\"}]"), bytes(offset));
            }
        }

        private static ByteBuffer bytes(String s) {
            return ByteBuffer.wrap(s.getBytes(StandardCharsets.UTF_8));
        }

        @Override
        public Set<Map<String, Object>> connectorPartitions(String connector) {
            return Set.of(Map.of("server", "bench"));
        }
    }

    final long wanted;
    final CountDownLatch done = new CountDownLatch(1);
    long rows, firstBatch, first, last; // rows; of these in the first batch; nanoseconds

    Capture(long wanted) {
        this.wanted = wanted;
    }

    @Override
    public void handleBatch(List<ChangeEvent<SourceRecord, SourceRecord>> batch,
            DebeziumEngine.RecordCommitter<ChangeEvent<SourceRecord, SourceRecord>> committer) throws InterruptedException {
        last = System.nanoTime();
        if (rows == 0) {
            first = last;
            firstBatch = batch.size();
        }
        rows += batch.size();
        committer.markProcessed(batch.get(batch.size() - 1));
        committer.markBatchFinished();
        if (rows >= wanted) {
            done.countDown();
        }
    }

    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        try (FileReader in = new FileReader(args[0])) {
            p.load(in);
        }
        offset = (String) p.remove("bench.offset");
        Capture c = new Capture(Long.parseLong((String) p.remove("bench.rows")));
        AtomicReference<String> failed = new AtomicReference<>();
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine = DebeziumEngine.create(Connect.class).using(p).notifying(c)
                .using((boolean success, String text, Throwable error) -> {
                    String message = text;
                    if (!success) {
                        for (Throwable e = error; e != null; e = e.getCause()) {
                            message = e.toString(); // the innermost says most
                        }
                        failed.set(message);
                    }
                    c.done.countDown();
                }).build();
        Thread runs = new Thread(engine);
        runs.start();
        c.done.await();
        if (failed.get() == null) {
            engine.close();
        }
        runs.join();
        if (c.rows != c.wanted) {
            System.err.println("Debezium gave " + c.rows + " rows, not " + c.wanted + ": " + failed.get());
            System.exit(1);
        }
        double seconds = (c.last - c.first) / 1e9;
        System.out.printf("%d rows, %.2f s from the first batch to the last%n", c.rows, seconds);
        System.out.printf(Locale.ROOT, "figures: {\"rows/s while reading\": %.0f}%n", (c.rows - c.firstBatch) / seconds);
        System.exit(0); // threads of drivers may live on
    }
}
