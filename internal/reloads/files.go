package reloads

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/internal/watchfile"
)

// This file reads files again when they change: certificates, authorities, and kubeconfigs with the files that they name.

// File is one file, or several that belong together, such as a certificate and its key.
type File struct {
	Name  string          // in log lines and metrics: the flag that names the files
	Paths func() []string // the files; they may depend on the contents of the first one
	// Use puts the contents, by path, into force. If it returns an error, what was in force before stays.
	Use func(texts map[string][]byte) error
}

// Paths returns a constant function for a File.
func Paths(paths ...string) func() []string { return func() []string { return paths } }

// Files keeps what a server reads from files current. Contents that cannot be used do not replace those in force. They are tried again:
// first after a second, because files that belong together are written one after the other, later less often, and with each check. Only
// a failure that is still there then is logged and counted, once for each message.
//
// A nil *Files reads files and does not read them again.
type Files struct {
	logger  *slog.Logger
	counts  *prometheus.CounterVec
	times   *prometheus.GaugeVec
	watcher *watchfile.Watcher

	mu    sync.Mutex
	files []*followed
}

// followed is a File with what is known about it.
type followed struct {
	File
	inForce  [sha256.Size]byte // hash of the contents
	failures int               // since the last success
	reported string            // the message of the last failure that was logged, "" since the last success
}

// NewFiles registers the metrics. interval is the time between checks, in addition to events of the file system; 0 means one minute.
func NewFiles(reg prometheus.Registerer, logger *slog.Logger, interval time.Duration) *Files {
	f := &Files{logger: logger,
		counts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "keelson_file_reloads_total",
			Help: "Number of times that changed files were read again, by the flag that names them and by status: success, or failure, which leaves the old contents in force.",
		}, []string{"flag", "status"}),
		times: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keelson_file_reload_last_timestamp_seconds",
			Help: "Unix time at which changed files were last read again, by the flag that names them and by status.",
		}, []string{"flag", "status"}),
	}
	reg.MustRegister(f.counts, f.times)
	f.watcher = watchfile.New(f.Check)
	f.watcher.Interval, f.watcher.Logger, f.watcher.What = interval, logger, "configured"
	return f
}

// Add reads files, puts their contents into force, and follows them from now on.
func (f *Files) Add(file File) error {
	texts, sum, err := file.read()
	if err == nil {
		err = file.Use(texts)
	}
	if err != nil || f == nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files = append(f.files, &followed{File: file, inForce: sum})
	f.watch()
	return nil
}

// read reads the files, and returns a hash of their names and contents.
func (file *File) read() (texts map[string][]byte, sum [sha256.Size]byte, err error) {
	h := sha256.New()
	texts = map[string][]byte{}
	for _, path := range file.Paths() {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, sum, err
		}
		texts[path] = text
		fmt.Fprintf(h, "%d %s %d ", len(path), path, len(text))
		h.Write(text)
	}
	return texts, [sha256.Size]byte(h.Sum(nil)), nil
}

// watch watches all files. The caller holds the lock.
func (f *Files) watch() {
	var paths []string
	for _, file := range f.files {
		paths = append(paths, file.Paths()...)
	}
	slices.Sort(paths)
	f.watcher.Set(slices.Compact(paths)...)
}

// Run reads the files again when they change, until ctx ends.
func (f *Files) Run(ctx context.Context) {
	f.Check() // what changed since Add
	f.watcher.Run(ctx)
}

// The delay of the first retry, which doubles with each failure, and the number of retries before only the regular checks are left.
const (
	retryAfter = time.Second
	retries    = 6
)

// Check reads all files, and uses those that changed or failed.
func (f *Files) Check() {
	f.mu.Lock()
	defer f.mu.Unlock()
	again := time.Duration(0)
	for _, file := range f.files {
		if wait := f.check(file); wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	if again > 0 {
		f.watcher.Again(again)
	}
	f.watch()
}

// check reads one file. It returns when to try again, 0 if the regular checks suffice.
func (f *Files) check(file *followed) time.Duration {
	texts, sum, err := file.read()
	if err == nil && sum == file.inForce {
		// Also after a failure: somebody put the old contents back.
		file.failures, file.reported = 0, ""
		return 0
	}
	if err == nil {
		err = file.Use(texts)
	}
	if err == nil {
		file.inForce, file.failures, file.reported = sum, 0, ""
		f.count(file.Name, "success")
		f.logger.Info("reloaded files", "flag", file.Name)
		return 0
	}
	// The first failure is not reported. It is the rule when a certificate has been replaced and its key
	// has not, or when a file was truncated and is being written.
	file.failures++
	if message := err.Error(); file.failures > 1 && message != file.reported {
		file.reported = message
		f.count(file.Name, "failure")
		f.logger.Error("changed files cannot be used; what was read before stays in force", "flag", file.Name, "error", err)
	}
	if file.failures > retries {
		return 0
	}
	return retryAfter << (file.failures - 1)
}

// count counts a reload.
func (f *Files) count(name, status string) {
	f.counts.WithLabelValues(name, status).Inc()
	f.times.WithLabelValues(name, status).SetToCurrentTime()
}
