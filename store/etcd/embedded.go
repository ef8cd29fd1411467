package etcd

// This file holds the embedded server.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/features"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"github.com/keelson-io/keelson/store"
)

// embedded implements server in the process.
type embedded struct {
	*etcdserver.EtcdServer
	lock  *fileutil.LockedFile
	space *space
	ahead *ahead       // nil if nothing is synced
	seen  atomic.Int64 // newest revision that anybody was told

	lastSeen int64 // revision at the last step of the compaction loop

	streams sync.Mutex
	open    map[*localSource]struct{}
	closing bool

	quiet atomic.Bool // while it starts to stop, everything complains
	dead  chan struct{}
	cause atomic.Pointer[error]
}

const (
	// The server has nobody to wait for: it elects itself one or two ticks after it has read its log.
	tick          = 10 // ms
	electionTicks = 2
	// A snapshot of the raft log every so many writes bounds what has to be read again at the next start, 20 µs each. While one is made,
	// no write is answered.
	snapshotCount = 5000
	startTimeout  = 30 * time.Second
	bcryptCost    = 10
)

// startEmbedded starts the server and waits until it leads itself.
func startEmbedded(ctx context.Context, c Config) (*embedded, error) {
	lock, err := lockDir(c.DataDir)
	if err != nil {
		return nil, err
	}
	first, err := beginStart(c.DataDir)
	if err != nil {
		lock.Close()
		return nil, err
	}
	e := &embedded{lock: lock, dead: make(chan struct{}), open: map[*localSource]struct{}{}}
	started := make(chan error, 1)
	// In a goroutine of its own, because etcd's way to report a damaged file is to stop the goroutine that met it.
	go func() {
		var err error
		e.EtcdServer, err = etcdserver.NewServer(serverConfig(c, newLogger(c.Logger, &e.quiet, e.die)))
		if err == nil {
			if snaps, _ := filepath.Glob(filepath.Join(c.DataDir, memberDir, snapDir, "*.snap")); len(snaps) == 0 {
				e.EtcdServer.ForceSnapshot() // see keepLittle
			}
			e.EtcdServer.Start()
		}
		started <- err
	}()
	select {
	case err = <-started:
	case <-e.dead:
		err = e.failure()
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("starting etcd in %s: %w", c.DataDir, err)
	}
	e.space = newSpace(c.DataDir, c.Quota, e.used, c.Logger)
	err = e.awaitReady(ctx)
	if err == nil {
		e.keepLittle()
	}
	if err == nil && first {
		err = endFirst(c.DataDir)
	}
	if err != nil {
		e.close()
		return nil, fmt.Errorf("starting etcd in %s: %w", c.DataDir, err)
	}
	e.told(e.KV().Rev())
	if !c.Fast {
		e.ahead = keepAhead(filepath.Join(c.DataDir, memberDir, walDir), c.Logger)
	}
	return e, nil
}

// lockDir makes the data directory this process's own.
func lockDir(dir string) (*fileutil.LockedFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	lock, err := fileutil.TryLockFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("data directory %s is in use by another process", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	return lock, nil
}

// serverConfig is what etcd's own command would make of its flags, tuned for a single member without a network.
func serverConfig(c Config, log *zap.Logger) config.ServerConfig {
	// The names are written into the data and never connected to; etcd's defaults, so that its tools can open it.
	const name = "default"
	peer := types.URLs{url.URL{Scheme: "http", Host: "localhost:2380"}}
	return config.ServerConfig{
		Name:                name,
		DataDir:             c.DataDir,
		PeerURLs:            peer,
		ClientURLs:          types.URLs{url.URL{Scheme: "http", Host: "localhost:2379"}},
		InitialPeerURLsMap:  types.URLsMap{name: peer},
		InitialClusterToken: "etcd-cluster",
		NewCluster:          true,

		TickMs:                     tick,
		ElectionTicks:              electionTicks,
		InitialElectionTickAdvance: true,
		BootstrapTimeout:           time.Second,

		SnapshotCount:          snapshotCount,
		SnapshotCatchUpEntries: math.MaxUint64, // while it starts; see keepLittle
		MaxSnapFiles:           2,
		MaxWALFiles:            2,

		// Space is guarded by this package, so that running out of it needs no alarm to be disarmed by hand.
		QuotaBackendBytes: -1,
		MaxRequestBytes:   maxRequest,
		MaxTxnOps:         16,

		CompactHashCheckTime:        time.Hour,
		DowngradeCheckTime:          time.Hour,
		WarningApplyDuration:        time.Second,
		WarningUnaryRequestDuration: 2 * time.Second,

		BcryptCost:        bcryptCost, // there are no users
		UnsafeNoFsync:     c.Fast,
		Logger:            log,
		ServerFeatureGate: features.NewDefaultServerFeatureGate(name, log),
		V2Deprecation:     config.V2DeprDefault,
		Metrics:           "basic",
		LocalAddress:      "",
	}
}

// keepLittle lets the server forget what its raft log held in memory. Entries that are kept are for followers, which there are none of.
//
// Before the server leads nothing may be forgotten: raft looks through what it does not know to be applied yet before it elects itself,
// and stops the process if that is no longer there, which was seen of a server that was killed and started again on a busy machine. The
// log is cut after its first entry however many are to be kept, unless there is a snapshot to begin at; so a start that finds none makes
// one.
//
// etcd reads the field when it has applied a hundred entries more than when it read it last. Nobody writes so many before startEmbedded
// returns, and what is written later is written after this.
func (e *embedded) keepLittle() { e.Cfg.SnapshotCatchUpEntries = 1 }

// awaitReady waits until the server leads, and takes back an alarm that another etcd may have raised in the data.
func (e *embedded) awaitReady(ctx context.Context) error {
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-e.ReadyNotify():
	case <-e.dead:
		return e.failure()
	case <-e.StopNotify():
		return errors.New("server stopped")
	case <-timeout.C:
		return fmt.Errorf("not ready after %v", startTimeout)
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, a := range e.Alarms() {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		_, err := e.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: a.MemberID, Alarm: a.Alarm})
		if err != nil {
			return err
		}
	}
	return nil
}

// used returns how many bytes of the database are in use. What was freed counts as free only one commit later, for which there
// may be no occasion when writes are refused; so if settle is set it makes one.
func (e *embedded) used(settle bool) int64 {
	if settle {
		for range 2 {
			tx := e.Backend().BatchTx()
			tx.LockOutsideApply()
			tx.UnsafeDelete(schema.Meta, []byte("nothing"))
			tx.Unlock()
			e.Backend().ForceCommit()
		}
	}
	return e.Backend().SizeInUse()
}

// die is called when etcd cannot go on.
func (e *embedded) die(reason string) {
	err := fmt.Errorf("etcd cannot write its files any more, start the process again when the cause is removed: %s", reason)
	if e.cause.CompareAndSwap(nil, &err) {
		close(e.dead)
	}
}

func (e *embedded) failed() <-chan struct{} { return e.dead }

func (e *embedded) failure() error {
	if err := e.cause.Load(); err != nil {
		return unavailable("%w", *err)
	}
	return nil
}

func (e *embedded) local() bool { return true }

// revision needs no agreement and no request: whoever was told of a revision was told by this store.
func (e *embedded) revision(context.Context) (int64, error) { return e.seen.Load(), nil }

// told notes that somebody is told of a revision.
func (e *embedded) told(rev int64) {
	for old := e.seen.Load(); old < rev; old = e.seen.Load() {
		if e.seen.CompareAndSwap(old, rev) {
			return
		}
	}
}

func (e *embedded) mayWrite(bytes int) error {
	if err := e.failure(); err != nil {
		return err
	}
	e.ahead.note(bytes)
	return e.space.take(bytes)
}

// Txn ends when the server fails, which the server's own does not notice.
func (e *embedded) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp, err := e.EtcdServer.Txn(ctx, r)
	if err == nil {
		e.told(resp.Header.Revision)
		return resp, nil
	}
	if dead := e.failure(); dead != nil {
		return nil, dead
	}
	return nil, err
}

func (e *embedded) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	seen := e.seen.Load()
	resp, err := e.EtcdServer.Range(ctx, r)
	// Watchers are told of a change a moment before it can be read. Whoever looks because of it must not see what was before.
	for errors.Is(err, mvcc.ErrFutureRev) && r.Revision <= e.seen.Load() || err == nil && r.Revision == 0 && resp.Header.Revision < seen {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-e.dead:
			return nil, e.failure()
		case <-time.After(readableSoon):
		}
		resp, err = e.EtcdServer.Range(ctx, r)
	}
	if err == nil {
		e.told(resp.Header.Revision)
	}
	return resp, err
}

// readableSoon is the pause before something that watchers were told of is read again.
const readableSoon = 100 * time.Microsecond

func (e *embedded) progress(context.Context) error {
	e.streams.Lock()
	defer e.streams.Unlock()
	for s := range e.open {
		s.askProgress()
	}
	return nil
}

// compactOnce compacts to where the store was one interval ago.
func (e *embedded) compactOnce(ctx context.Context) (int64, error) {
	rev := e.lastSeen
	e.lastSeen = e.seen.Load()
	if rev <= 1 || rev == e.lastSeen {
		return 0, nil
	}
	_, err := e.EtcdServer.Compact(ctx, &pb.CompactionRequest{Revision: rev})
	return rev, ignoreCompacted(err)
}

func (e *embedded) close() error {
	e.streams.Lock()
	e.closing = true
	open := maps.Clone(e.open)
	e.streams.Unlock()
	for s := range open {
		s.stop()
	}
	if e.failure() != nil {
		return nil // goroutines that hold its locks have stopped: it cannot be shut down
	}
	e.ahead.stop()
	e.quiet.Store(true)
	stopped := make(chan struct{})
	go func() {
		e.EtcdServer.HardStop()
		close(stopped)
	}()
	select {
	case <-stopped:
		return e.lock.Close()
	case <-e.dead:
		return e.failure()
	}
}

var _ server = (*embedded)(nil)
var _ store.Store = (*client)(nil)
