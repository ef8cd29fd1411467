package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stalledServer is a server with 10 MB of config maps and users who can do everything: mallory does not read what she asked for, ann
// does, and of eve's requests the answers are recorded.
func stalledServer(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := startServer(t,
		"--token-auth-file", write("tokens.csv", "ann,ann,1,system:masters\nmallory,mallory,2,system:masters\neve,eve,3,system:masters\n"),
		"--audit-policy-file", write("policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: RequestResponse\n  users: [eve]\n  verbs: [list]\n- level: None\n"),
		"--audit-log-path", filepath.Join(dir, "audit.log"))
	text := strings.Repeat("0123456789 abcdef\\n", 104<<10/19)
	for i := range 100 {
		s.do(t, 201, "POST", bigMaps, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"big-%d"},"data":{"text":%q}}`, i, text))
	}
	return s
}

const bigMaps = "/api/v1/namespaces/default/configmaps"

// resetPeak makes peakMemory count from now on.
func (s *server) resetPeak(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Skipf("the peak of memory cannot be reset here: %v", err)
	}
}

// stallPlain sends a request over a connection of its own and reads no more than the first byte of the answer.
func (s *server) stallPlain(user, path string, header ...string) (io.Closer, error) {
	d := net.Dialer{Timeout: patience, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	conn, err := tls.DialWithDialer(&d, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: keelson\r\nAuthorization: Bearer %s\r\n", path, user)
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	b.WriteString("\r\n")
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return conn, err
	}
	line, err := bufio.NewReaderSize(conn, 16).ReadSlice(' ')
	if err != nil {
		return conn, fmt.Errorf("%s: %q, %w", path, line, err)
	}
	return conn, nil
}

// stallStreams sends the same request over n streams of one connection, whose windows are closed, and reads the headers of the answers.
func (s *server) stallStreams(n int, user, path string, header ...string) (io.Closer, error) {
	conn, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, http2.ClientPreface)
	f := http2.NewFramer(conn, conn)
	f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for i := range n {
		block.Reset()
		fields := append([]string{":method", "GET", ":scheme", "https", ":authority", "keelson", ":path", path, "authorization", "Bearer " + user}, header...)
		for i := 0; i < len(fields); i += 2 {
			e.WriteField(hpack.HeaderField{Name: strings.ToLower(fields[i]), Value: fields[i+1]})
		}
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
			return conn, err
		}
	}
	for answered := 0; answered < n; {
		frame, err := f.ReadFrame()
		if err != nil {
			return conn, err
		}
		switch frame := frame.(type) {
		case *http2.HeadersFrame:
			answered++
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				f.WriteSettingsAck()
			}
		}
	}
	return conn, nil
}

// stallMany calls stall for each of n readers, some at a time, and closes what they opened when the test ends.
func stallMany(t *testing.T, n int, stall func() (io.Closer, error)) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	some := make(chan struct{}, 16)
	for range n {
		some <- struct{}{}
		all.Go(func() {
			defer func() { <-some }()
			c, err := stall()
			mu.Lock()
			defer mu.Unlock()
			if c != nil {
				t.Cleanup(func() { c.Close() })
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// stalledMemory returns by how much the server's memory has grown at most since before when readers have stalled and others were
// answered.
func (s *server) stalledMemory(t *testing.T, before int64) int64 {
	t.Helper()
	grown := s.peakMemory(t) - before
	for quiet := 0; quiet < 4; quiet++ { // until it grows no more
		for range 5 {
			began := time.Now()
			for path, accept := range map[string]string{bigMaps + "/big-7": "application/json", bigMaps + "?limit=3": "application/yaml"} {
				s.do(t, 200, "GET", path, nil, "Authorization", "Bearer ann", "Accept", accept)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("another user's requests took %v", took)
			}
		}
		time.Sleep(100 * time.Millisecond)
		if now := s.peakMemory(t) - before; now > grown {
			grown, quiet = now, 0
		}
	}
	return grown
}

// TestStalledWatches opens 1,001 watches of 10 MB that nobody reads.
func TestStalledWatches(t *testing.T) {
	t.Parallel()
	s := stalledServer(t)
	s.do(t, 200, "GET", bigMaps, nil)
	s.resetPeak(t)
	before := s.peakMemory(t)
	stallMany(t, 101, func() (io.Closer, error) { return s.stallPlain("mallory", bigMaps+"?watch=true&resourceVersion=0") })
	stallMany(t, 1, func() (io.Closer, error) {
		return s.stallStreams(900, "mallory", bigMaps+"?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	})
	grown := s.stalledMemory(t, before)
	t.Logf("memory grew by %d MiB", grown>>20)
	if grown > 192<<20 {
		t.Errorf("memory grew by %d MiB with 1,001 watches that are not read, want at most 192", grown>>20)
	}
}

// TestStalledLists asks 60 times for each form of a list of 10 MB and reads none.
func TestStalledLists(t *testing.T) {
	t.Parallel()
	const table, partial = "application/json;as=Table;v=v1;g=meta.k8s.io", "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	for _, c := range []struct {
		name, user, query string
		header            []string
	}{
		{"JSON", "mallory", "", nil},
		{"pretty", "mallory", "?pretty=true", nil},
		{"compressed", "mallory", "", []string{"Accept-Encoding", "gzip"}},
		{"table", "mallory", "?includeObject=Object", []string{"Accept", table}},
		{"protobuf", "mallory", "", []string{"Accept", "application/vnd.kubernetes.protobuf"}},
		{"YAML", "mallory", "", []string{"Accept", "application/yaml"}},
		{"metadata", "mallory", "?pretty=true", []string{"Accept", "application/json;" + partial}},
		{"recorded", "eve", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stalledServer(t) // memory that was used once is used again
			get := func() []byte {
				return s.do(t, 200, "GET", bigMaps+c.query, nil, append(c.header, "Authorization", "Bearer "+c.user)...)
			}
			get()
			s.resetPeak(t)
			before := s.peakMemory(t)
			plain := 20
			if c.name == "YAML" {
				plain = 0 // it takes long to fill the kernel's buffers
			}
			stallMany(t, plain, func() (io.Closer, error) { return s.stallPlain(c.user, bigMaps+c.query, c.header...) })
			stallMany(t, 1, func() (io.Closer, error) { return s.stallStreams(60-plain, c.user, bigMaps+c.query, c.header...) })
			grown := s.stalledMemory(t, before)
			t.Logf("memory grew by %d MiB", grown>>20)
			if grown > 150<<20 {
				t.Errorf("memory grew by %d MiB with 60 lists that are not read, want at most 150", grown>>20)
			}
		})
	}
}

// TestWatchOfAStalledReaderEnds holds that a watch ends in time also if nobody reads what it sends.
func TestWatchOfAStalledReaderEnds(t *testing.T) {
	t.Parallel()
	s := stalledServer(t)
	const watch = bigMaps + "?watch=true&resourceVersion=0&timeoutSeconds=1"
	watches := func() string {
		for line := range strings.Lines(string(s.do(t, 200, "GET", "/metrics", nil))) {
			if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `resource="configmaps"`) {
				return line[strings.LastIndexByte(line, ' ')+1 : len(line)-1]
			}
		}
		return "0"
	}
	stallMany(t, 3, func() (io.Closer, error) { return s.stallPlain("mallory", watch) })
	stallMany(t, 1, func() (io.Closer, error) { return s.stallStreams(3, "mallory", watch) })
	eventually(t, "watches ended", func() bool { return watches() == "0" })
}
