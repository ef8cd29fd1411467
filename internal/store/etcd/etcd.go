// Package etcd is a store.Store in etcd: either a server within the process, with its data in a
// directory, or a cluster that is reached over the network.
//
// The embedded server opens no port and no socket; requests are function calls. It is a cluster of
// one member. What it has applied is therefore agreed, and reads need no round of agreement. A
// write is acknowledged when the write-ahead log is on disk. The server has no peers, so that it
// ticks fast and is ready after a few tens of milliseconds.
//
// Keys are stored as "/<prefix>/<key>", as kube-apiserver stores custom resources.
//
// The files are checked before etcd opens them (check.go). Open returns a store.DamagedError
// for a damaged store, and does not change it.
//
// When space runs out (the database reaches Config.Quota, or the file system is nearly full),
// writes are refused with store.ErrNoSpace. Reads go on, and so do deletes as long as there is a
// little room for them. Writes resume when space has been freed. If etcd fails to use its files
// nevertheless, the store refuses every write until another process opens it (store.Mortal); etcd alone
// would end the process.
//
// The function to call: Open. Servers open stores by way of Database.
package etcd

// This file has the configuration, and opens and closes the store.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"github.com/keelson-io/keelson/internal/store"
)

// Config has the place of the data. Set either DataDir or Endpoints.
type Config struct {
	DataDir string // of the embedded server, for this process only

	Endpoints []string // URLs of a cluster's members
	CAFile    string   // certificates that signed those of the cluster; "" means the system's
	CertFile  string   // client certificate
	KeyFile   string

	Prefix string // of every key; "" means "registry", so that keys start with "/registry/"

	Quota           int64         // bytes the embedded server's database may hold; 0 means 8 GiB
	CompactInterval time.Duration // interval of compaction, which is also the age of the history that is kept; 0 means 5 minutes, negative never
	NoChecksums     bool          // of the embedded server's values
	Fast            bool          // for tests only: no fsync, so a crash of the machine loses data

	Logger *slog.Logger // nil means slog.Default()
}

// Defaults of Config.
const (
	defaultPrefix          = "registry"
	defaultQuota           = 8 << 30
	defaultCompactInterval = 5 * time.Minute
)

// maxRequest is the size of the longest raft entry: the longest value with its key and framing.
const maxRequest = store.MaxValue + 1<<20

// api is the part that EtcdServer and the client of a cluster have in common.
type api interface {
	Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error)
	Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error)
	Compact(context.Context, *pb.CompactionRequest) (*pb.CompactionResponse, error)
}

// server is an api with the differences between the two.
type server interface {
	api
	local() bool                                        // what it has applied is agreed
	revision(ctx context.Context) (int64, error)        // linearizable
	watch(prefix []byte, after int64, prev bool) source // opens a stream of changes, with what they replaced
	progress(ctx context.Context) error                 // for all streams
	mayWrite(bytes int) error                           // called before a write; ErrNoSpace
	compactOnce(ctx context.Context) (int64, error)     // one step of the compaction loop; the revision compacted to, or 0
	failed() <-chan struct{}                            // closed when the server has failed for good
	failure() error                                     // why
	snapshot(ctx context.Context, w io.Writer) error    // everything, as etcd's tools write it
	close() error
}

// client implements store.Store over a server.
type client struct {
	server
	prefix string // of all keys, with slashes at both ends
	log    *slog.Logger

	closing sync.Once
	closed  <-chan struct{} // of life
	life    context.Context
	end     context.CancelFunc
	loops   sync.WaitGroup
}

// withDefaults returns c with defaults for empty fields.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if c.Quota == 0 {
		c.Quota = defaultQuota
	}
	if c.CompactInterval == 0 {
		c.CompactInterval = defaultCompactInterval
	}
	return c
}

// Open starts the embedded server in c.DataDir, or connects to the cluster at c.Endpoints.
func Open(ctx context.Context, c Config) (store.Store, error) {
	c = c.withDefaults()
	var s server
	var err error
	switch {
	case len(c.Endpoints) > 0 && c.DataDir != "":
		return nil, errors.New("etcd configuration: got both a data directory and endpoints of a cluster, want one of them")
	case len(c.Endpoints) > 0:
		s, err = dial(ctx, c)
	case c.DataDir != "":
		s, err = startEmbedded(ctx, c)
	default:
		return nil, errors.New("etcd configuration: got neither a data directory nor endpoints of a cluster")
	}
	if err != nil {
		return nil, err
	}
	cl := &client{
		server: s,
		prefix: strings.TrimSuffix(path.Join("/", c.Prefix), "/") + "/",
		log:    c.Logger,
	}
	cl.life, cl.end = context.WithCancel(context.Background())
	cl.closed = cl.life.Done()
	if c.CompactInterval > 0 {
		cl.loops.Go(func() { cl.compactLoop(c.CompactInterval) })
		if e, ok := s.(*embedded); ok {
			cl.loops.Go(func() { e.trim(cl.life) })
		}
	}
	return cl, nil
}

// Close ends the watchers and stops the embedded server, or disconnects from the cluster.
func (c *client) Close() error {
	var err error
	c.closing.Do(func() {
		c.end()
		c.loops.Wait()
		err = c.server.close()
	})
	return err
}

// usable returns the check with which every method starts.
func (c *client) usable(ctx context.Context) error {
	select {
	case <-c.closed:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}

// Ping reads the revision, which needs a leader and, in a cluster, a majority.
func (c *client) Ping(ctx context.Context) error {
	if _, err := c.Revision(ctx); err != nil {
		return err
	}
	select {
	case <-c.failed():
		return c.failure()
	default:
		return nil
	}
}

var _ store.Mortal = (*client)(nil)

// Failed implements store.Mortal.
func (c *client) Failed() <-chan struct{} { return c.failed() }

// Failure implements store.Mortal.
func (c *client) Failure() error { return c.failure() }

// HasRoom implements store.Mortal.
func (c *client) HasRoom() bool {
	e, ok := c.server.(*embedded)
	return !ok || e.space.hasRoom()
}

// compactLoop compacts the history that is older than an interval.
func (c *client) compactLoop(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-c.closed:
			return
		case <-tick.C:
		}
		rev, err := c.compactOnce(c.life)
		switch {
		case err == nil && rev > 0:
			c.log.Debug("etcd history compacted", "revision", rev)
		case err != nil && c.life.Err() == nil:
			c.log.Warn("etcd history not compacted", "err", err)
		}
	}
}

// ignoreCompacted drops the error that another server has already compacted as far.
func ignoreCompacted(err error) error {
	if errors.Is(err, mvcc.ErrCompacted) || errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
		return nil
	}
	return err
}

// unavailable wraps an error of the server.
func unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{store.ErrUnavailable}, args...)...)
}
