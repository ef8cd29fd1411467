package etcd

import (
	"context"
	"log/slog"
	"time"

	"github.com/keelson-io/keelson/store"
)

type Config struct {
	DataDir string // of the embedded server; not used with Endpoints

	Endpoints []string // URLs of a cluster's members
	CAFile    string   // that signed the cluster's certificates
	CertFile  string   // client certificate
	KeyFile   string

	Prefix string // of every key; "" means "registry", so that keys start with "/registry/"

	Quota           int64         // bytes the embedded server's database may grow to; 0 means 8 GiB
	CompactInterval time.Duration // how often history is compacted, and so how much is kept; 0 means 5 minutes, negative never
	Fast            bool          // for tests only: no fsync, small files; a crash of the machine loses data

	Logger *slog.Logger // nil means slog.Default()
}

func Open(ctx context.Context, c Config) (store.Store, error) {
	panic("BUG: not built yet")
}
