package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark/ha/measure"
)

const (
	goTPC         = "github.com/pingcap/go-tpc"
	goTPCVersion  = "v1.0.12"
	tpcbScale     = 5 // of pgbench; tpcb.mysql.sql has the same
	tpcbSessions  = 4
	tpccHouses    = 2
	tpccSessions  = 4
	tpccRoundTrip = 10 * time.Millisecond // go-tpc has no rate option: this is its network distance from the source
)

// soakTables are the tables that both loads write to, and item, which is read-only.
var soakTables = []table{
	{"pgbench_branches", "bid:text bbalance:text filler:text"},
	{"pgbench_tellers", "tid:text bid:text tbalance:text filler:text"},
	{"pgbench_accounts", "aid:text bid:text abalance:text filler:text"},
	{"pgbench_history", "tid:text bid:text aid:text delta:text mtime:time filler:text"},
	{"warehouse", "w_id:text w_name:text w_street_1:text w_street_2:text w_city:text w_state:text w_zip:text w_tax:text w_ytd:cents"},
	{"district", "d_id:text d_w_id:text d_name:text d_street_1:text d_street_2:text d_city:text d_state:text d_zip:text d_tax:text d_ytd:cents d_next_o_id:text"},
	{"customer", "c_id:text c_d_id:text c_w_id:text c_first:text c_middle:text c_last:text c_street_1:text c_street_2:text c_city:text c_state:text c_zip:text c_phone:text " +
		"c_since:time c_credit:text c_credit_lim:cents c_discount:text c_balance:cents c_ytd_payment:cents c_payment_cnt:text c_delivery_cnt:text c_data:text"},
	{"history", "h_c_id:text h_c_d_id:text h_c_w_id:text h_d_id:text h_w_id:text h_date:time h_amount:cents h_data:text"},
	{"new_order", "no_o_id:text no_d_id:text no_w_id:text"},
	{"orders", "o_id:text o_d_id:text o_w_id:text o_c_id:text o_entry_d:time o_carrier_id:text o_ol_cnt:text o_all_local:text"},
	{"order_line", "ol_o_id:text ol_d_id:text ol_w_id:text ol_number:text ol_i_id:text ol_supply_w_id:text ol_delivery_d:time ol_quantity:text ol_amount:cents ol_dist_info:text"},
	{"stock", "s_i_id:text s_w_id:text s_quantity:text s_dist_01:text s_dist_02:text s_dist_03:text s_dist_04:text s_dist_05:text " +
		"s_dist_06:text s_dist_07:text s_dist_08:text s_dist_09:text s_dist_10:text s_ytd:text s_order_cnt:text s_remote_cnt:text s_data:text"},
	{"item", "i_id:text i_im_id:text i_name:text i_price:cents i_data:text"},
}

// keyless are the tables without a primary key, which PostgreSQL publishes only with a replica
// identity.
var keyless = []string{"pgbench_history", "history"}

// fillSoak creates the tables of pgbench and of TPC-C, with foreign keys.
func (b *bench) fillSoak(ctx context.Context, s *server, foreignKeys bool) error {
	if s.engine == "postgres" {
		if err := b.command(ctx, nil, postgresBin+"/pgbench", "-i", "-q", "-s", strconv.Itoa(tpcbScale), "--foreign-keys", s.url(database)); err != nil {
			return err
		}
	} else if err := b.script("tpcb.mysql.sql")(ctx, s); err != nil {
		return err
	}
	prepare := append(b.goTPC(s, s.port), "-T", "1", "prepare", "--no-check") // one session: several do not keep the order that foreign keys need
	if foreignKeys {
		prepare = append(prepare, "--use-fk")
	}
	if err := b.command(ctx, nil, prepare...); err != nil {
		return err
	}
	if s.engine == "postgres" {
		for _, t := range keyless {
			if err := s.exec(ctx, database, "ALTER TABLE "+t+" REPLICA IDENTITY FULL"); err != nil {
				return err
			}
		}
	}
	return s.analyze(ctx, soakTables)
}

// buildGoTPC does in a module of its own what go install does, but without querying for other
// versions: not every proxy lists them.
func (b *bench) buildGoTPC(ctx context.Context) error {
	dir := filepath.Join(b.dir, "go-tpc-module")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	mod := "module soak\n\ngo 1.21\n\nrequire " + goTPC + " " + goTPCVersion + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o644); err != nil {
		return err
	}
	return command(ctx, "go", "build", "-C", dir, "-mod=mod", "-o", filepath.Join(b.dir, "go-tpc"), goTPC+"/cmd/go-tpc")
}

// goTPC returns the start of its command line, for a server reached at a port.
func (b *bench) goTPC(s *server, port int) []string {
	args := []string{filepath.Join(b.dir, "go-tpc"), "tpcc", "-H", "127.0.0.1", "-P", strconv.Itoa(port), "-U", account, "-p", password, "-D", database, "--warehouses", strconv.Itoa(tpccHouses)}
	if s.engine == "postgres" {
		return append(args, "-d", "postgres", "--conn-params", "sslmode=disable")
	}
	return append(args, "-d", "mysql")
}

// A load runs pgbench's and TPC-C's transactions on one server, concurrently.
type load struct {
	TPCB, TPCBFailed int // transactions; failed ones were rolled back, as is normal in a database
	TPCC, TPCCFailed int
	done             chan struct{} // closed once they have ended
	err              error         // valid then
}

// startLoad starts both; they end after a time, or with ctx.
func (b *bench) startLoad(ctx context.Context, s *server, perSecond int, lasting time.Duration, dir string) (*load, error) {
	away, err := measure.NewProxy("127.0.0.1:"+strconv.Itoa(s.port), measure.Line{Delay: tpccRoundTrip})
	if err != nil {
		return nil, err
	}
	l := &load{done: make(chan struct{})}
	var all sync.WaitGroup
	errs := make([]error, 2)
	all.Go(func() {
		if s.engine == "postgres" {
			l.TPCB, l.TPCBFailed, errs[0] = pgbench(ctx, s, perSecond, lasting, filepath.Join(dir, "pgbench.log"))
		} else {
			l.TPCB, l.TPCBFailed, errs[0] = tpcb(ctx, s, perSecond, lasting)
		}
	})
	all.Go(func() {
		defer away.Close()
		args := append(b.goTPC(s, away.Port()), "-T", strconv.Itoa(tpccSessions), "--time", lasting.String(), "--ignore-error", "run")
		l.TPCC, l.TPCCFailed, errs[1] = counted(ctx, step{args: args}, filepath.Join(dir, "go-tpc.log"), tpccCounts)
	})
	go func() {
		all.Wait()
		l.err = errors.Join(errs...)
		close(l.done)
	}()
	return l, nil
}

func pgbench(ctx context.Context, s *server, perSecond int, lasting time.Duration, log string) (done, failed int, err error) {
	args := one(postgresBin+"/pgbench", "-n", "-c", strconv.Itoa(tpcbSessions), "-R", strconv.Itoa(perSecond), "-T", strconv.Itoa(int(lasting.Seconds())), s.url(database))
	return counted(ctx, args[0], log, pgbenchCounts)
}

// counted runs a program and reads from its log how many transactions succeeded, and how many
// failed.
func counted(ctx context.Context, st step, log string, counts func(text string) (done, failed int)) (done, failed int, err error) {
	out, err := os.Create(log)
	if err != nil {
		return 0, 0, err
	}
	defer out.Close()
	if _, err := runStep(ctx, st, nil, out); err != nil {
		return 0, 0, fmt.Errorf("%w: %s", err, lastLines(log))
	}
	text, err := os.ReadFile(log)
	if err != nil {
		return 0, 0, err
	}
	if done, failed = counts(string(text)); done == 0 {
		return 0, 0, fmt.Errorf("%s did nothing: %s", filepath.Base(st.args[0]), lastLines(log))
	}
	return done, failed, nil
}

var (
	pgbenchDone   = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	pgbenchFailed = regexp.MustCompile(`(?m)^number of failed transactions: (\d+)`)
	tpccLine      = regexp.MustCompile(`^\[Summary\] (\w+) +- .*\bCount: (\d+)`)
)

func pgbenchCounts(text string) (done, failed int) {
	number := func(r *regexp.Regexp) int {
		if m := r.FindStringSubmatch(text); m != nil {
			n, _ := strconv.Atoi(m[1]) // digits, because of the pattern
			return n
		}
		return 0
	}
	return number(pgbenchDone), number(pgbenchFailed)
}

// tpccCounts adds up go-tpc's summary, which has a line for each kind of transaction and one for
// the failed ones of that kind.
func tpccCounts(text string) (done, failed int) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		m := tpccLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		n, _ := strconv.Atoi(m[2]) // digits, because of the pattern
		if strings.HasSuffix(m[1], "_ERR") {
			failed += n
		} else {
			done += n
		}
	}
	return done, failed
}

// tpcb runs on MySQL and MariaDB what pgbench runs on PostgreSQL: the same transactions, at the
// same average rate.
func tpcb(ctx context.Context, s *server, perSecond int, lasting time.Duration) (done, failed int, err error) {
	var all sync.WaitGroup
	var dones, faileds [tpcbSessions]int
	errs := make([]error, tpcbSessions)
	end := time.Now().Add(lasting)
	for i := range tpcbSessions {
		all.Go(func() {
			dones[i], faileds[i], errs[i] = tpcbSession(ctx, s, time.Duration(tpcbSessions)*time.Second/time.Duration(perSecond), end)
		})
	}
	all.Wait()
	for i := range tpcbSessions {
		done, failed = done+dones[i], failed+faileds[i]
	}
	return done, failed, errors.Join(errs...)
}

// tpcbSession starts a transaction every pause, on average, or as soon after as it can.
func tpcbSession(ctx context.Context, s *server, pause time.Duration, end time.Time) (done, failed int, err error) {
	conn, err := client.Connect(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), account, password, database)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	for due := time.Now(); ; {
		due = due.Add(time.Duration(rand.ExpFloat64() * float64(pause)))
		if due.After(end) {
			return done, failed, nil
		}
		select {
		case <-ctx.Done():
			return done, failed, ctx.Err()
		case <-time.After(time.Until(due)):
		}
		err := transfer(conn)
		var refused *mysql.MyError
		switch {
		case err == nil:
			done++
		case errors.As(err, &refused) && slices.Contains(pleaseRepeat, refused.Code):
			failed++
			if err := conn.Rollback(); err != nil {
				return done, failed, err
			}
		default:
			return done, failed, err
		}
	}
}

var pleaseRepeat = []uint16{mysql.ER_LOCK_DEADLOCK, mysql.ER_LOCK_WAIT_TIMEOUT}

// transfer is pgbench's transaction.
func transfer(conn *client.Conn) error {
	delta, aid, teller, branch := rand.IntN(10001)-5000, 1+rand.IntN(100_000*tpcbScale), 1+rand.IntN(10*tpcbScale), 1+rand.IntN(tpcbScale)
	for _, sql := range []string{
		"BEGIN",
		fmt.Sprintf("UPDATE pgbench_accounts SET abalance = abalance + %d WHERE aid = %d", delta, aid),
		fmt.Sprintf("SELECT abalance FROM pgbench_accounts WHERE aid = %d", aid),
		fmt.Sprintf("UPDATE pgbench_tellers SET tbalance = tbalance + %d WHERE tid = %d", delta, teller),
		fmt.Sprintf("UPDATE pgbench_branches SET bbalance = bbalance + %d WHERE bid = %d", delta, branch),
		fmt.Sprintf("INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (%d, %d, %d, %d, CURRENT_TIMESTAMP(6))", teller, branch, aid, delta),
		"COMMIT",
	} {
		if _, err := conn.Execute(sql); err != nil {
			return err
		}
	}
	return nil
}
