package etcd

// This file connects to a cluster.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/store"
)

// cluster implements server over the network.
type cluster struct {
	client *clientv3.Client
	kv     pb.KVClient // with the client's retries of reads

	trusting *trusting // nil if the cluster is without TLS

	life  context.Context
	end   context.CancelFunc
	quiet atomic.Bool

	noStreams atomic.Bool // a member does not send lists as streams

	log *slog.Logger
	// Set to the constants with these names, except in tests.
	silence, patience, answerTime time.Duration

	mu            sync.Mutex
	running, next *flight
	watches       map[*remoteSource]struct{}
	streams       atomic.Int64 // number of streams that watches have opened

	presence presence

	// The last state of the key by which the servers of a cluster agree who compacts.
	compactVersion, compactRev int64
}

const (
	dialTimeout = 10 * time.Second
	requestTime = 20 * time.Second // for requests whose context has no deadline
	answerTime  = 20 * time.Second // for the revision, from any member
	// patience is the time after which another member is asked, too. A member that hangs keeps its
	// connection for keepAlive and keepAliveWait, and meanwhile gets its share of all requests.
	patience      = 500 * time.Millisecond
	keepAlive     = 10 * time.Second // etcd allows one every 5 s
	keepAliveWait = 5 * time.Second
)

// dial connects to the cluster and waits for an answer.
func dial(ctx context.Context, c Config) (*cluster, error) {
	for _, e := range c.Endpoints {
		if err := checkEndpoint(e); err != nil {
			return nil, err
		}
	}
	tlsConfig, err := clientTLS(c)
	if err != nil {
		return nil, err
	}
	cl := &cluster{log: c.Logger, silence: silence, patience: patience, answerTime: answerTime}
	options := []grpc.DialOption{grpc.WithUserAgent("keelson")}
	if tlsConfig != nil {
		cl.trusting = newTrusting(tlsConfig)
		options = append(options, grpc.WithTransportCredentials(cl.trusting)) // in place of those that the client makes
	}
	cl.client, err = clientv3.New(clientv3.Config{
		Endpoints:            c.Endpoints,
		TLS:                  tlsConfig,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepAlive,
		DialKeepAliveTimeout: keepAliveWait,
		MaxCallSendMsgSize:   maxRequest,
		DialOptions:          options,
		Logger:               newLogger(c.Logger, &cl.quiet, func(error) {}), // a client writes no files
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	cl.kv = clientv3.RetryKVClient(cl.client)
	cl.life, cl.end = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := cl.revision(ctx); err != nil {
		cl.close()
		return nil, fmt.Errorf("no answer from %s: %w", strings.Join(c.Endpoints, ", "), plain(err))
	}
	return cl, nil
}

// checkEndpoint refuses URLs that cannot be a member's.
func checkEndpoint(e string) error {
	scheme, address, found := strings.Cut(e, "://")
	if !found {
		scheme, address = "http", e
	}
	_, _, err := net.SplitHostPort(address)
	switch {
	case scheme == "unix" || scheme == "unixs":
		return nil
	case scheme != "http" && scheme != "https", err != nil:
		return fmt.Errorf("servers of etcd: got %q, want a URL with a port, such as https://etcd-1:2379", e)
	}
	return nil
}

// clientTLS returns the TLS configuration; nil if no certificate is configured and no endpoint uses
// TLS.
func clientTLS(c Config) (*tls.Config, error) {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return nil, errors.New("etcd configuration: got only one of client certificate and key, want both or none")
	}
	secure := false
	for _, e := range c.Endpoints {
		secure = secure || strings.HasPrefix(e, "https://")
		if strings.HasPrefix(e, "http://") && (c.CAFile != "" || c.CertFile != "") {
			return nil, fmt.Errorf("certificates for etcd are given, and %s is without TLS", e)
		}
	}
	if !secure && c.CAFile == "" && c.CertFile == "" {
		return nil, nil
	}
	info := transport.TLSInfo{TrustedCAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile}
	var t *tls.Config
	err := checkAuthorities(c.CAFile)
	if err == nil {
		err = keysize.CheckFiles(c.CertFile, c.KeyFile)
	}
	if err == nil {
		t, err = info.ClientConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the certificates for etcd: %w", err)
	}
	return t, nil
}

// checkAuthorities refuses a file without a certificate, with which every connection would fail. An
// empty name is accepted.
func checkAuthorities(file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if _, err = keysize.Pool(text); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// limit adds a deadline to a context that has none.
func limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, requestTime)
}

// Txn sends a transaction to the cluster, with a deadline if the context has none.
func (c *cluster) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	ctx, cancel := limit(ctx)
	defer cancel()
	return c.kv.Txn(ctx, r)
}

// Compact sends a compaction to the cluster, with a deadline if the context has none.
func (c *cluster) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	ctx, cancel := limit(ctx)
	defer cancel()
	return c.kv.Compact(ctx, r)
}

// flight is one read of the revision, shared by all calls that began before it.
type flight struct {
	done chan struct{}
	rev  int64
	err  error
}

// revision shares round trips. A call that begins during one, whose answer may already be on its
// way, joins the next one.
func (c *cluster) revision(ctx context.Context) (int64, error) {
	c.mu.Lock()
	var f *flight
	switch {
	case c.running == nil:
		f = &flight{done: make(chan struct{})}
		c.running = f
		go c.fly(f)
	case c.next == nil:
		f = &flight{done: make(chan struct{})}
		c.next = f
	default:
		f = c.next
	}
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.rev, f.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// fly makes the round trip of f, and then starts the next one if calls joined it. If f fails, the
// next one fails as well: its calls would otherwise wait twice as long.
func (c *cluster) fly(f *flight) {
	f.rev, f.err = c.readRevision()
	c.mu.Lock()
	next := c.next
	c.running, c.next = next, nil
	silent := next != nil && errors.Is(f.err, context.DeadlineExceeded)
	if silent {
		c.running = nil
		next.err = f.err
	}
	c.mu.Unlock()
	close(f.done)
	switch {
	case silent:
		close(next.done)
	case next != nil:
		go c.fly(next)
	}
}

// readRevision reads the revision from a member, and from another one in turn whenever patience has passed.
// The first answer or error counts, because the client has then retried by itself. If no member
// answers, the error is context.DeadlineExceeded.
func (c *cluster) readRevision() (int64, error) {
	ctx, cancel := context.WithTimeout(c.life, c.answerTime)
	defer cancel()
	type answer struct {
		rev int64
		err error
	}
	answers := make(chan answer)
	readOnce := func() {
		// A key that cannot exist: only the header matters.
		r, err := c.kv.Range(ctx, &pb.RangeRequest{Key: []byte{0}, CountOnly: true})
		a := answer{err: err}
		if err == nil {
			a.rev = r.Header.Revision
		}
		select {
		case answers <- a:
		case <-ctx.Done():
		}
	}
	go readOnce()
	over := time.NewTimer(c.patience)
	defer over.Stop()
	for {
		select {
		case a := <-answers:
			return a.rev, a.err
		case <-over.C:
			over.Reset(c.patience)
			go readOnce()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// local returns false: another member may have a newer state. The methods after it concern the disk
// and the failure of an embedded server, which a cluster does not have.
func (c *cluster) local() bool             { return false }
func (c *cluster) mayWrite(int) error      { return nil }
func (c *cluster) failed() <-chan struct{} { return nil }
func (c *cluster) failure() error          { return nil }

// progress requests progress on every watch. It is called repeatedly while a caller waits for a
// revision. A watch that has not answered since an earlier call is on a member that hangs, and is
// opened on another one.
func (c *cluster) progress(ctx context.Context) error {
	c.mu.Lock()
	all := make([]*remoteSource, 0, len(c.watches))
	for s := range c.watches {
		s.awaited()
		all = append(all, s)
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, c.patience) // it may wait for a stream
	defer cancel()
	for _, s := range all {
		if err := s.askProgress(ctx); err != nil {
			return unavailable("%w", err)
		}
	}
	return nil
}

// compactKey is where kube-apiserver keeps the revision it last compacted to.
const compactKey = "compact_rev_key"

// compactOnce does one step of the compaction that all servers of a cluster share. The server that
// finds the key as it last saw it writes the current revision there, and compacts to the revision
// that it saw an interval ago. The others only remember the state of the key.
func (c *cluster) compactOnce(ctx context.Context) (int64, error) {
	key := []byte(compactKey)
	r, err := c.Txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: key, Target: pb.Compare_VERSION, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_Version{Version: c.compactVersion},
		}},
		Success: put(key, strconv.AppendInt(nil, c.compactRev, 10)),
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}},
	})
	if err != nil {
		return 0, err
	}
	rev := c.compactRev
	c.compactRev = r.Header.Revision
	if r.Succeeded {
		c.compactVersion++
	} else {
		kvs := r.Responses[0].GetResponseRange().Kvs
		c.compactVersion = 0
		if len(kvs) > 0 {
			c.compactVersion = kvs[0].Version
		}
		return 0, nil
	}
	if rev == 0 {
		return 0, nil
	}
	_, err = c.Compact(ctx, &pb.CompactionRequest{Revision: rev})
	return rev, ignoreCompacted(err)
}

// close ends all watches and requests, and disconnects. The end of the context is not an error
// here: close ended it.
func (c *cluster) close() error {
	c.leave()
	c.quiet.Store(true)
	c.end()
	if err := c.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("disconnecting from etcd: %w", err)
	}
	return nil
}

var _ server = (*cluster)(nil)
var _ store.Store = (*client)(nil)
