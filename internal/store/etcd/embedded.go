package etcd

// This file runs the embedded server.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
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

	"github.com/keelson-io/keelson/internal/store"
)

// embedded implements server within the process.
type embedded struct {
	*etcdserver.EtcdServer
	lock    *fileutil.LockedFile
	space   *space
	sums    *sums // nil: values have no checksums
	written *written
	seen    atomic.Int64 // newest revision that any caller has seen

	lastSeen int64 // revision at the last step of the compaction loop

	streams sync.Mutex
	open    map[*localSource]struct{}
	closing bool

	quiet atomic.Bool // set during the stop, when all parts log errors
	dead  chan struct{}
	cause atomic.Pointer[error]
	// segment is why etcd could not prepare the next segment of its log; nil if it could.
	segment atomic.Pointer[error]
	log     *slog.Logger
}

const (
	// There is no other member to wait for: the server elects itself one or two ticks after it has
	// read its log.
	tick          = 10 // ms
	electionTicks = 2
	// A snapshot of the raft log after this number of writes bounds the entries that the next start
	// reads, at 20 µs each. While a snapshot is made, no write is answered.
	snapshotCount = 5000
	startTimeout  = 30 * time.Second
	bcryptCost    = 10
)

// startEmbedded starts the server and waits until it is its own leader. If there is no store, it
// creates an empty one.
func startEmbedded(ctx context.Context, c Config) (*embedded, error) {
	lock, err := lockDir(c.DataDir)
	if err != nil {
		return nil, err
	}
	e, err := openLocked(ctx, c)
	if err != nil {
		lock.Close()
		return nil, err
	}
	e.lock = lock
	e.space.begin()
	e.sawRevision(e.KV().Rev())
	return e, nil
}

// openLocked is startEmbedded for the holder of the directory's lock.
func openLocked(ctx context.Context, c Config) (*embedded, error) {
	if _, err := createStore(c); err != nil {
		return nil, err
	}
	database := filepath.Join(c.DataDir, memberDir, snapDir, dbFile)
	if free, err := freeBytes(c.DataDir); err == nil && !roomForDeletes(free, reservedBefore(database)) {
		return nil, diskFull(c.DataDir, free, deleteReserve, "to start")
	}
	var scan *sumsScan
	if !c.NoChecksums {
		var err error
		if scan, err = newSumsScan(c.DataDir, c.Logger); err != nil {
			return nil, startError(c.DataDir, sumsFile, err)
		}
	}
	if err := checkStore(c.DataDir, scan); err != nil {
		return nil, err
	}
	e, err := run(ctx, c)
	if err == nil && scan != nil {
		e.sums = scan.finish(e.KV().Rev())
	}
	return e, err
}

// run starts a server and waits until it is its own leader.
func run(ctx context.Context, c Config) (*embedded, error) {
	e := &embedded{log: c.Logger, dead: make(chan struct{}), open: map[*localSource]struct{}{}}
	started := make(chan error, 1)
	// This runs in its own goroutine, because etcd reports a damaged file by ending the goroutine
	// that found it.
	go func() {
		debug.SetPanicOnFault(true)
		started <- guard(func() error { return e.begin(c) })
	}()
	var err error
	select {
	case err = <-started:
	case <-e.dead:
		err = *e.cause.Load()
	}
	if err != nil {
		return nil, startError(c.DataDir, "", err)
	}
	e.space = newSpace(c.DataDir, c.Quota, e.used, c.Logger)
	room, roomErr := freeBytes(c.DataDir)
	if roomErr != nil {
		room = math.MaxInt64 // bounded by the quota, then
	}
	e.written = newWritten(e.KV().Rev(), room, c.Quota)
	e.space.ahead = newDatabaseBlocks(filepath.Join(c.DataDir, memberDir, snapDir, dbFile), e.Backend().Size)
	if b, ok := e.Backend().(interface{ Commits() int64 }); ok {
		e.space.done = b.Commits
	}
	if err := e.awaitReady(ctx); err != nil {
		e.close()
		return nil, startError(c.DataDir, "", err)
	}
	e.keepLittle()
	return e, nil
}

// begin opens the files and starts the server.
func (e *embedded) begin(c Config) (err error) {
	if e.EtcdServer, err = etcdserver.NewServer(serverConfig(c, newSegmentLogger(c.Logger, &e.quiet, e.die, e.noSegment))); err != nil {
		return err
	}
	if snaps, _ := filepath.Glob(filepath.Join(c.DataDir, memberDir, snapDir, "*.snap")); len(snaps) == 0 {
		e.EtcdServer.ForceSnapshot() // see keepLittle
	} else {
		// A member alone need not wait for others: etcd lets one tick less than this pass at once, which is
		// the longest time after which raft elects. The field has no other effect on a member alone.
		e.EtcdServer.Cfg.ElectionTicks = 2 * electionTicks
	}
	e.EtcdServer.Start()
	return nil
}

// lockDir locks the data directory for this process.
func lockDir(dir string) (*fileutil.LockedFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	lock, err := fileutil.TryLockFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("data directory %s is in use by another process", dir)
	}
	if err != nil {
		return nil, startError(dir, "", fmt.Errorf("locking the data directory: %w", err))
	}
	return lock, nil
}

// serverConfig returns the configuration that etcd's command would derive from its flags, tuned for
// a single member without a network.
func serverConfig(c Config, log *zap.Logger) config.ServerConfig {
	// The names are stored in the data, but never used to connect. They are etcd's defaults, so
	// that its tools can open the data.
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
		MaxWALFiles:            0, // see removeSegments

		// This package guards the space itself: etcd's own alarm would have to be disarmed by hand.
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

// keepLittle lets the server drop the entries of the raft log that it keeps in memory for
// followers. There are none.
//
// Before the server leads, entries must stay. Raft reads those that it does not know to be applied
// before it elects itself, and stops the process if they are missing; this happened to a server
// that was killed and restarted on a busy machine. Without a snapshot, the log is always cut after
// its first entry, so that a start without a snapshot makes one.
//
// etcd reads the field after each hundred applied entries. Fewer are written before startEmbedded
// returns, so that the change is safe.
func (e *embedded) keepLittle() { e.Cfg.SnapshotCatchUpEntries = 1 }

// awaitReady waits until the server leads, and disarms an alarm that another etcd may have left in
// the data.
func (e *embedded) awaitReady(ctx context.Context) error {
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-e.ReadyNotify():
	case <-e.dead:
		return *e.cause.Load()
	case <-e.StopNotify():
		return errors.New("server stopped")
	case <-timeout.C:
		return fmt.Errorf("starting etcd in %s: %w after %v", e.Cfg.DataDir, errNotReady, startTimeout)
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

// used returns the bytes of the database in use. Freed bytes count as free only after the next
// commit, for which there may be no occasion if writes are refused. If commitFirst is set, used
// commits first.
func (e *embedded) used(commitFirst bool) int64 {
	if commitFirst {
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

// die records that etcd cannot go on.
func (e *embedded) die(err error) {
	if e.cause.CompareAndSwap(nil, &err) {
		close(e.dead)
	}
}

// noSegment records that etcd could not prepare the next segment of its log. etcd would notice when
// the current segment is full, fail a write that happens then, and stop. No acknowledged write is
// lost in either case. mayWrite ends the server before, as soon as a new process could prepare it.
func (e *embedded) noSegment(err error) {
	e.log.Error("the next segment of etcd's log cannot be prepared; the server ends, to be restarted, when there is free space", "dir", e.Cfg.DataDir, "error", err)
	e.segment.CompareAndSwap(nil, &err)
}

// dieOf ends the server after a panic of a read, which is how the database reports a damaged page.
// It returns the error.
func (e *embedded) dieOf(cause any) error {
	e.die(fmt.Errorf("reading the database: %v", cause))
	return e.failure()
}

// failed returns a channel that is closed when etcd cannot go on.
func (e *embedded) failed() <-chan struct{} { return e.dead }

// failure returns the error that callers get after etcd failed, nil while it works.
func (e *embedded) failure() error {
	err := e.cause.Load()
	switch {
	case err == nil:
		return nil
	case isDiskFull(*err):
		return unavailable("%w; writes go on when there is room and the process was started again: %w", store.ErrDiskFull, *err)
	}
	return unavailable("etcd cannot use its files in %s any more, start the process again when the cause is removed: %w", e.Cfg.DataDir, *err)
}

// local reports that reads need no round of agreement: the only member has applied what is agreed.
func (e *embedded) local() bool { return true }

// revision needs neither agreement nor a request: every revision that a caller knows comes from
// this store.
func (e *embedded) revision(context.Context) (int64, error) { return e.seen.Load(), nil }

// sawRevision records that a caller is about to see a revision. A read must not return an older
// state afterwards.
func (e *embedded) sawRevision(rev int64) {
	for old := e.seen.Load(); old < rev; old = e.seen.Load() {
		if e.seen.CompareAndSwap(old, rev) {
			return
		}
	}
}

// mayWrite returns an error if a write of so many bytes would not fit. Such a write never reaches
// etcd, which does not survive a full disk.
func (e *embedded) mayWrite(bytes int) error {
	if err := e.segment.Load(); err != nil && e.space.hasRoom() {
		e.die(*err)
	}
	if err := e.failure(); err != nil {
		return err
	}
	return e.space.reserve(bytes)
}

// Txn also ends when the server fails, which EtcdServer.Txn does not notice.
func (e *embedded) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	bytes := bytesOf(r.Success)
	e.written.await(ctx, bytes)
	resp, err := e.EtcdServer.Txn(ctx, r)
	if err == nil {
		e.sawRevision(resp.Header.Revision)
		if resp.Succeeded {
			e.addSum(resp.Header.Revision, r.Success)
			e.written.add(resp.Header.Revision, bytes)
		}
		return resp, nil
	}
	if dead := e.failure(); dead != nil {
		return nil, dead
	}
	return nil, err
}

// bytesOf returns how many bytes operations write.
func bytesOf(ops []*pb.RequestOp) (n int64) {
	for _, op := range ops {
		if put := op.GetRequestPut(); put != nil {
			n += int64(len(put.Key) + len(put.Value))
		}
	}
	return n
}

// addSum records the checksum of a transaction's only change.
func (e *embedded) addSum(rev int64, ops []*pb.RequestOp) {
	if e.sums == nil || len(ops) != 1 {
		return
	}
	if put := ops[0].GetRequestPut(); put != nil {
		e.sums.add(sumOf(rev, put.Key, put.Value))
	} else if del := ops[0].GetRequestDeleteRange(); del != nil {
		e.sums.add(sum{rev: rev, key: hashKey(del.Key), kind: ofDelete})
	}
}

// Compact also drops checksums. If their file cannot be written, the next start computes them.
func (e *embedded) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	resp, err := e.EtcdServer.Compact(ctx, r)
	if err == nil && e.sums != nil {
		if err := e.sums.compact(r.Revision); err != nil {
			e.sums.log.Warn("the file of checksums cannot be written; they will be computed at the next start", "path", e.sums.path, "error", err)
		}
	}
	return resp, err
}

// Range reads from the database. A page of the database that the disk no longer delivers (SIGBUS)
// is a failure of the server, not of the process.
func (e *embedded) Range(ctx context.Context, r *pb.RangeRequest) (resp *pb.RangeResponse, err error) {
	faults := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(faults)
		if cause := recover(); cause != nil {
			resp, err = nil, e.dieOf(cause)
		}
	}()
	seen := e.seen.Load()
	resp, err = e.EtcdServer.Range(ctx, r)
	// Watchers learn of a change a moment before it can be read. A read that follows must not
	// return the state before.
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
		e.sawRevision(resp.Header.Revision)
	}
	return resp, err
}

// readableSoon is the pause before a read is repeated for this reason.
const readableSoon = 100 * time.Microsecond

// progress asks every open watch to report how far it has come.
func (e *embedded) progress(context.Context) error {
	e.streams.Lock()
	defer e.streams.Unlock()
	for s := range e.open {
		s.askProgress()
	}
	return nil
}

// compactOnce compacts to the revision of one interval ago.
func (e *embedded) compactOnce(ctx context.Context) (int64, error) {
	rev := e.lastSeen
	e.lastSeen = e.seen.Load()
	if rev <= 1 || rev == e.lastSeen {
		return 0, nil
	}
	if err := e.space.reserve(0); err != nil {
		return 0, err // compaction itself writes before it frees anything
	}
	_, err := e.Compact(ctx, &pb.CompactionRequest{Revision: rev})
	return rev, ignoreCompacted(err)
}

// close ends the watches and then the server, which writes its last files.
func (e *embedded) close() error {
	e.streams.Lock()
	e.closing = true
	open := maps.Clone(e.open)
	e.streams.Unlock()
	for s := range open {
		s.stop()
	}
	if e.sums != nil {
		e.sums.close()
	}
	if e.failure() != nil {
		return nil // goroutines that hold its locks have stopped, so that it cannot be shut down
	}
	e.quiet.Store(true)
	stopped := make(chan struct{})
	go func() {
		e.EtcdServer.HardStop()
		close(stopped)
	}()
	select {
	case <-stopped:
		return e.unlock()
	case <-e.dead:
		return e.failure()
	}
}

// unlock releases the lock of the directory. A server that fills a staging directory has none.
func (e *embedded) unlock() error {
	if e.lock == nil {
		return nil
	}
	return e.lock.Close()
}

var _ server = (*embedded)(nil)
var _ store.Store = (*client)(nil)
