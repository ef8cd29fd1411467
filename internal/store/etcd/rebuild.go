package etcd

// This file writes the contents of a snapshot to a new snapshot, before etcd restores it. etcd's
// database trusts what it opens, and a page that was made up can panic, fault or loop in it. In the
// new file every page was written by the database itself, from records that were checked.

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
)

// rebuiltBuckets are the buckets whose records a restore keeps. The others are about the members
// and the users of the etcd that wrote the snapshot. The restored etcd has one member, and no
// clients other than this process.
var rebuiltBuckets = map[string]backend.Bucket{
	"key": schema.Key, "meta": schema.Meta, "lease": schema.Lease, "alarm": schema.Alarm, "cluster": schema.Cluster,
}

// commitBytes is the size of the transactions of rebuild.
const commitBytes = 16 << 20

// rebuild writes the records of a snapshot to a new snapshot.
func rebuild(file, to string, log *zap.Logger) error {
	return writeSnapshot(to, log, func(put func(bucket backend.Bucket, key, value []byte)) error {
		_, err := readSnapshot(file, func(name string, key, value []byte) error {
			if bucket, ok := rebuiltBuckets[name]; ok {
				put(bucket, key, bytes.Clone(value)) // the database clones the key
			}
			return nil
		})
		return err
	})
}

// writeSnapshot writes a new snapshot with the records that fill puts, sorted in each bucket.
func writeSnapshot(to string, log *zap.Logger, fill func(put func(bucket backend.Bucket, key, value []byte)) error) error {
	c := backend.DefaultBackendConfig(log)
	c.Path, c.UnsafeNoFsync = to, true
	b := backend.New(c)
	tx := b.BatchTx()
	tx.LockOutsideApply()
	for _, bucket := range schema.AllBuckets {
		tx.UnsafeCreateBucket(bucket)
	}
	written := 0
	err := fill(func(bucket backend.Bucket, key, value []byte) {
		tx.UnsafeSeqPut(bucket, key, value)
		if written += len(key) + len(value); written >= commitBytes {
			written = 0
			tx.Unlock()
			tx.Commit()
			tx.LockOutsideApply()
		}
	})
	tx.Unlock()
	if err := errors.Join(err, b.Close()); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	_, err = f.Write(sum.Sum(nil))
	return err
}
