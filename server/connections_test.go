package server

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/datadir"
	"github.com/keelson-io/keelson/internal/memory"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file tests how many connections there may be, and whose.

// peer is the test's end of a connection.
type peer struct {
	net.Conn
	closed bool
}

func (p *peer) Close() error                { p.closed = true; return nil }
func (p *peer) Read(b []byte) (int, error)  { return len(b), nil }
func (p *peer) Write(b []byte) (int, error) { return len(b), nil }

// callers open connections of a table, without a network.
type callers struct {
	t   *testing.T
	all *connections
	log bytes.Buffer
}

// newCallers returns a table for limit connections, reserved of them for administrators and health
// checks.
func newCallers(t *testing.T, limit, reserved int64, strangers int) *callers {
	c := &callers{t: t}
	c.all = newConnections(0, memory.SharesOf(0).Pending, time.Minute, slog.New(slog.NewTextHandler(&c.log, nil)))
	c.all.limit, c.all.reserved, c.all.strangers = limit, reserved, strangers
	return c
}

// dial opens a connection one second after the others; it returns nil if the server refuses it.
func (c *callers) dial(from string) *clientConn {
	for conn := range c.all.open {
		conn.since = conn.since.Add(-strangersGrace)
	}
	conn, got := c.knock(from)
	if got != admitted {
		return nil
	}
	return conn
}

// knock opens a connection right after the others.
func (c *callers) knock(from string) (*clientConn, placing) {
	conn := &clientConn{Conn: &peer{}, all: c.all, source: netip.MustParsePrefix(from + "/32")}
	conn.counting.Store(true)
	got, _ := c.all.place(conn, false)
	return conn, got
}

// TestAcceptingKeepsUp holds that while the server is behind, only connections of the addresses that connect most are closed.
func TestAcceptingKeepsUp(t *testing.T) {
	c := newCallers(t, 0, 0, 4)
	for range 4 {
		c.knock("10.0.0.1")
	}
	place := func(from string) placing {
		got, _ := c.all.place(&clientConn{Conn: &peer{}, all: c.all, source: netip.MustParsePrefix(from + "/32")}, true)
		return got
	}
	for i, one := range []struct {
		from string
		want placing
	}{{"10.0.0.1", shed}, {"10.0.0.2", admitted}, {"10.0.0.1", shed}, {"10.0.0.3", admitted}} {
		if got := place(one.from); got != one.want {
			t.Errorf("%d, from %s: got %v, want %v", i, one.from, got, one.want)
		}
	}
	if c.all.unknown != 4 || c.all.waiting != 0 || len(c.all.sources) != 3 {
		t.Errorf("got %d strangers of %d addresses, %d wait", c.all.unknown, len(c.all.sources), c.all.waiting)
	}
	if !strings.Contains(c.log.String(), "address=10.0.0.1/32") {
		t.Errorf("the log does not name the address: %s", &c.log)
	}
}

// TestQueueOfTheSystem holds that connections that nobody accepts are counted where the server can know it.
func TestQueueOfTheSystem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("known on Linux only")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 3 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if got := queued(l); got != 3 {
		t.Errorf("got %d, want 3", got)
	}
}

// TestHelpersEmptyTheQueue holds that more goroutines accept until the queue is short, and then end.
func TestHelpersEmptyTheQueue(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the queue is known on Linux only")
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	c := newCallers(t, 0, 0, 1000)
	l := &limitListener{Listener: inner, all: c.all, ready: make(chan net.Conn, 1000), ended: make(chan struct{})}
	for range 2*longQueue + queueLook {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	l.help()
	testkit.Eventually(t, "the helpers end", func() bool { return !l.helped.Load() })
	if left := queued(inner); left >= longQueue || c.all.unknown+left != 2*longQueue+queueLook {
		t.Errorf("%d connections are left in the queue, and %d were accepted", left, c.all.unknown)
	}
	for range c.all.unknown {
		(<-l.ready).Close()
	}
}

// as sets the user of a connection.
func (c *callers) as(conn *clientConn, user string) admit.Standing {
	return conn.Admit(admit.Caller{User: user, Anonymous: user == "", Administrator: user == "admin", Probe: user == "probe" || user == ""})
}

func gone(conn *clientConn) bool { return conn.Conn.(*peer).closed }

// Ledger: connections-of-one-user.
func TestStrangersMakeRoom(t *testing.T) {
	c := newCallers(t, 0, 0, 4)
	var many []*clientConn
	for range 3 {
		many = append(many, c.dial("10.0.0.1"))
	}
	other := c.dial("10.0.0.2")
	newest := c.dial("10.0.0.2")
	if !gone(many[0]) || gone(many[1]) || gone(other) {
		t.Error("not the oldest connection of the address with most has made room")
	}
	if c.as(newest, "jane") != admit.Stays || c.dial("10.0.0.2") == nil || gone(many[1]) {
		t.Error("a user's connection counts as a stranger's")
	}
	if c.dial("10.0.0.3"); !gone(many[1]) {
		t.Error("nobody has made room")
	}
	if got := c.as(many[1], "late"); got != admit.Refused {
		t.Errorf("a connection that is closed: got %v", got)
	}
	if c.all.unknown != 4 || len(c.all.open) != 5 || c.all.users["late"] != 0 {
		t.Errorf("got %d strangers, %d connections, users %v", c.all.unknown, len(c.all.open), c.all.users)
	}
}

// TestStrangersWait holds that a burst waits before it closes what has just come, that nobody else waits for it, and that those who wait come in
// turns.
func TestStrangersWait(t *testing.T) {
	c := newCallers(t, 0, 0, 4)
	var burst []*clientConn
	for range 7 {
		conn, got := c.knock("10.0.0.1")
		if want := map[bool]placing{true: admitted, false: waits}[len(burst) < 4]; got != want {
			t.Errorf("connection %d: got %v, want %v", len(burst), got, want)
		}
		burst = append(burst, conn)
	}
	if conn, wait := c.all.next(); conn != nil || wait <= 0 || wait > strangersGrace {
		t.Errorf("at once: got %v, wait %v", conn, wait)
	}
	for i, want := range []placing{admitted, admitted, waits} { // then each has two
		if _, got := c.knock("10.0.0.2"); got != want || gone(burst[0]) != (i >= 0) || gone(burst[2]) {
			t.Errorf("another address, %d: got %v, want %v", i, got, want)
		}
	}
	later := func() {
		for conn := range c.all.open {
			conn.since = conn.since.Add(-strangersGrace)
		}
	}
	later()
	if conn, _ := c.all.next(); conn != burst[4] || !gone(burst[2]) {
		t.Errorf("a second later: got %p, want the first one that waits, %p", conn, burst[4])
	}
	burst[3].Close()
	if conn, _ := c.all.next(); conn != burst[5] {
		t.Error("the next one is not admitted when there is room")
	}
	if c.all.waiting != 2 || c.all.unknown != 4 {
		t.Errorf("got %d that wait, %d strangers", c.all.waiting, c.all.unknown)
	}
	c.all.forsakeAll()
	if c.all.waiting != 0 || !gone(burst[6]) || len(c.all.sources) != 2 {
		t.Errorf("got %d that wait, %d addresses", c.all.waiting, len(c.all.sources))
	}
}

// TestFloodsOfStrangers holds that what waits is bounded, and that a flood does not push others out of what waits.
func TestFloodsOfStrangers(t *testing.T) {
	c := newCallers(t, 0, 0, 10)
	var first *clientConn
	for i := range 10 + waitingRoom {
		if conn, got := c.knock("10.0.0.1"); i == 0 {
			first = conn
		} else if i >= 10 && got != waits {
			t.Fatalf("connection %d: got %v", i, got)
		}
	}
	if gone(first) {
		t.Error("the first one is closed while others may wait")
	}
	if _, got := c.knock("10.0.0.1"); got != waits || !gone(first) || c.all.waiting != waitingRoom || c.all.unknown != 10 {
		t.Errorf("beyond what may wait: got %v, %d wait, %d strangers", got, c.all.waiting, c.all.unknown)
	}
	for i := range 20 {
		if _, got := c.knock(fmt.Sprintf("10.0.1.%d", i)); got == refused {
			t.Errorf("address %d is refused", i)
		}
	}
	if c.all.waiting != waitingRoom {
		t.Errorf("%d wait", c.all.waiting)
	}
}

func TestUsersLeaveConnections(t *testing.T) {
	c := newCallers(t, 22, 2, 100)
	for i := range 10 { // half of what is not reserved
		if got := c.as(c.dial("10.0.0.1"), "mallory"); got != admit.Stays {
			t.Fatalf("connection %d: got %v", i, got)
		}
	}
	if got := c.as(c.dial("10.0.0.1"), "mallory"); got != admit.Refused {
		t.Errorf("more than half for one user: got %v", got)
	}
	for i := range 6 { // as many as are left for others
		if got := c.as(c.dial("10.0.0.2"), "eve"); (i < 5) != (got == admit.Stays) {
			t.Errorf("connection %d of the next user: got %v", i, got)
		}
	}
	for i := range 4 {
		if got := c.as(c.dial("10.0.0.2"), fmt.Sprint("user-", i)); got != admit.Stays {
			t.Errorf("another user: got %v", got)
		}
	}
	// There are 20 now, of which one is a stranger's: a user's next one takes its place.
	next := c.dial("10.0.0.3")
	if got := c.as(next, "jane"); got != admit.Stays || len(c.all.open) != 20 {
		t.Errorf("in a stranger's place: got %v, %d connections", got, len(c.all.open))
	}
	// Then users have all but what is reserved.
	for user, want := range map[string]admit.Standing{"jane": admit.Refused, "probe": admit.Closes, "": admit.Closes} {
		conn := c.dial("10.0.0.4")
		if got := c.as(conn, user); got != want {
			t.Errorf("user %q beyond what is not reserved: got %v, want %v", user, got, want)
		}
		conn.Close()
	}
	var admins []*clientConn
	for range 2 {
		conn := c.dial("10.0.0.5")
		if got := c.as(conn, "admin"); got != admit.Stays {
			t.Errorf("an administrator: got %v", got)
		}
		admins = append(admins, conn)
	}
	for range 2 {
		if conn := c.dial("10.0.0.6"); conn != nil {
			t.Error("there is a connection beyond the limit")
		}
	}
	if n := strings.Count(c.log.String(), "connections are refused"); n != 1 {
		t.Errorf("got %d lines in the log, want one a minute:\n%s", n, c.log.String())
	}
	admins[0].Close()
	admins[0].Close() // counts once
	if c.dial("10.0.0.6") == nil || len(c.all.open) != 22 {
		t.Errorf("got %d connections", len(c.all.open))
	}
	for conn := range c.all.open {
		conn.Close()
	}
	if len(c.all.open) != 0 || c.all.unknown != 0 || len(c.all.users) != 0 || len(c.all.sources) != 0 {
		t.Errorf("at the end: %d connections, %d strangers, users %v", len(c.all.open), c.all.unknown, c.all.users)
	}
}

func TestHeadersHaveABudget(t *testing.T) {
	c := newCallers(t, 0, 0, 1000)
	maxPending := c.all.charged.most
	honest := c.dial("10.0.0.2")
	honest.Read(make([]byte, 2*freeHeader))
	var hostile []*clientConn
	const each = 1 << 20
	for range 2 * maxPending / each {
		conn := c.dial("10.0.0.1")
		for range each / 4096 {
			conn.Read(make([]byte, 4096))
		}
		hostile = append(hostile, conn)
	}
	if c.all.charged.bytes > maxPending || gone(honest) || !gone(hostile[0]) || gone(hostile[len(hostile)-1]) {
		t.Errorf("%d bytes are on their way; closed: the honest one %v, the first hostile one %v, the last %v",
			c.all.charged.bytes, gone(honest), gone(hostile[0]), gone(hostile[len(hostile)-1]))
	}
	// What has arrived counts no more; what comes after the answer does.
	last := hostile[len(hostile)-1]
	before := c.all.charged.bytes
	last.begin(1)
	if got := c.all.charged.bytes; got != before-each {
		t.Errorf("after the request began: got %d bytes, want %d", got, before-each)
	}
	last.Read(make([]byte, each))
	if c.as(last, "jane") != admit.Stays || c.all.charged.bytes != before-each {
		t.Error("a body counts as a header")
	}
	last.end(1)
	last.Read(make([]byte, each))
	if c.all.charged.bytes != before {
		t.Error("the next header does not count")
	}
	for conn := range c.all.open {
		conn.Close()
	}
	if c.all.charged.bytes != 0 || len(c.all.charged.conns) != 0 {
		t.Errorf("%d bytes count at the end", c.all.charged.bytes)
	}
}

// TestListenerClosesWhatHasNoRoom holds that a connection without room is closed.
func TestListenerClosesWhatHasNoRoom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := newCallers(t, 1, 0, 10)
	accepted := make(chan net.Conn)
	done := make(chan bool)
	limited := c.all.limitListener(l)
	go func() {
		defer close(done)
		for {
			conn, err := limited.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	dial()
	first := (<-accepted).(*clientConn)
	c.as(first, "jane")
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a connection beyond the limit is open")
	}
	first.Close()
	dial()
	(<-accepted).Close()
	limited.Close()
	<-done
}

// TestListenerClosesWhatIsLeft holds that connections that were admitted and that nobody serves are closed with the listener.
func TestListenerClosesWhatIsLeft(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := newCallers(t, 0, 0, 10)
	l := c.all.limitListener(inner)
	var clients []net.Conn
	for range 3 {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		clients = append(clients, conn)
	}
	testkit.Eventually(t, "all are admitted", func() bool { return len(l.ready) == len(clients) })
	l.Close()
	for _, conn := range clients {
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection is open after the listener: %v", err)
		}
	}
	if len(c.all.open) != 0 {
		t.Errorf("%d connections are left", len(c.all.open))
	}
}

func TestConnectionsLeaveFiles(t *testing.T) {
	for files, want := range map[int64]int64{0: 0, 300: 150, 1024: 768, 65536: 65280} {
		if got := maxConnections(files); got != want {
			t.Errorf("%d files: got %d connections, want %d", files, got, want)
		}
	}
	if files := datadir.OpenFiles(); files > 0 && maxConnections(files) >= files {
		t.Errorf("this process may open %d files", files)
	}
}
