package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/server"
)

// This file has the audit flags.

func auditFlags(f *pflag.FlagSet, c *server.Config) {
	l, w := &c.AuditLog, &c.AuditWebhook
	f.StringVar(&c.AuditPolicyFile, "audit-policy-file", "", "audit policy `file`; without it, no requests are recorded")
	f.StringVar(&l.Path, "audit-log-path", "", "`file` of the audit log; - for standard output")
	f.IntVar(&l.MaxAge, "audit-log-maxage", 366, "`days` for which old log files are kept; 0 for ever")
	f.IntVar(&l.MaxBackups, "audit-log-maxbackup", 100, "`number` of old log files to keep; 0 for all")
	f.IntVar(&l.MaxSize, "audit-log-maxsize", 100, "`megabytes` after which a new log file is started; 0 for one file")
	f.BoolVar(&l.Compress, "audit-log-compress", false, "compress old log files")
	f.StringVar(&l.Format, "audit-log-format", audit.FormatJSON, "`format` of the log: json or legacy")
	f.StringVar(&l.Mode, "audit-log-mode", audit.Blocking, "`mode` of the log: blocking, blocking-strict or batch")
	f.IntVar(&l.BufferSize, "audit-log-batch-buffer-size", 10000, "`number` of events that can wait to be logged in batch mode")
	f.StringVar(&w.ConfigFile, "audit-webhook-config-file", "", "kubeconfig `file` of a webhook that receives events")
	f.StringVar(&w.Mode, "audit-webhook-mode", audit.Batch, "`mode` of the webhook: blocking, blocking-strict or batch")
	f.DurationVar(&w.InitialBackoff, "audit-webhook-initial-backoff", 10*time.Second, "`duration` before the first retry of a failed call")
	f.IntVar(&w.BufferSize, "audit-webhook-batch-buffer-size", 10000, "`number` of events that can wait to be sent in batch mode")
	f.IntVar(&w.MaxBatch, "audit-webhook-batch-max-size", 400, "`number` of events in a call in batch mode")
	f.DurationVar(&w.MaxWait, "audit-webhook-batch-max-wait", 30*time.Second, "`duration` for which an event waits for others in batch mode")
	f.Float32Var(&w.QPS, "audit-webhook-batch-throttle-qps", 10, "`number` of calls per second in batch mode")
	f.IntVar(&w.Burst, "audit-webhook-batch-throttle-burst", 15, "`number` of calls in a burst in batch mode")
}
