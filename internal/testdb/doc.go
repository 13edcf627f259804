// Package testdb runs real servers for tests: PostgreSQL 13 to 18, MariaDB 10.11, MySQL 8.0, Apache
// Derby, which stands in for Db2, Kafka 4.4, OpenSSH, and servers of S3, Azure Blob Storage and
// Google Cloud Storage. It hides where they come from, how each is initialised, started and
// stopped, and how SQL scripts are fed to them.
//
// A test asks for a server and creates its own database there:
//
//	src := testdb.Postgres(t, 15).NewDatabase(t, "orders")
//	testdb.Load(t, src, testdb.Sample(t, "pagila/pg.sql.zst"))
//	got := testdb.Query(t, src, "select count(*) from actor") // "200"
//
// A server starts when a test first asks for it (about half a second: an initialised data folder is
// cached and copied), listens on a free loopback port, and is shared by all tests of that process.
// A package that starts servers calls Main from its TestMain, which stops them at the end:
//
//	func TestMain(m *testing.M) { testdb.Main(m) }
//
// If the test process is interrupted, it ends its servers and programs and removes its folders. If
// it is killed, the kernel stops its servers (Linux: parent death signal), and the next test
// process removes their folders, and ends what still runs there (home). Shortly before the deadline
// of a package its stacks are printed, with the sessions and the end of the log of each server.
//
// "make test-deps" installs the programs. A missing one fails the test; with
// TIDEMARK_SKIP_MISSING=1 and CI unset it skips the test.
//
// Start reading at Server. run.go holds the life of a server process; postgres.go, mysql.go,
// derby.go, kafka.go, ssh.go, s3.go and clouds.go what is specific to each engine; script.go and
// sample.go feed scripts and samples in and read results back.
package testdb
