package etcd

// This file checks the contents of a snapshot's database. etcd panics, or stops, on records that it
// cannot decode and on revisions that are out of order, mostly in goroutines that cannot be guarded.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/blang/semver/v4"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/protobuf/proto"
)

// Lengths of a key in the bucket "key": a revision, '_', its part in a transaction, and 't' if the
// key was deleted (package mvcc of etcd).
const (
	revisionLength  = 17
	tombstoneLength = 18
)

// maxRecordKey is the length that the database allows a key.
const maxRecordKey = 32 << 10

// maxRevision bounds the revisions of a snapshot. A restore adds to them.
const maxRevision = 1 << 62

// contents checks the records of a database in their order.
type contents struct {
	last [revisionLength]byte // the revision of the record before
}

// check returns an error if etcd cannot use a record.
func (c *contents) check(bucket string, key, value []byte) error {
	if len(key) == 0 || len(key) > maxRecordKey {
		return fmt.Errorf("bucket %.100q: got a key of %d bytes, want 1 to %d", bucket, len(key), maxRecordKey)
	}
	if err := c.checkRecord(bucket, key, value); err != nil {
		return fmt.Errorf("bucket %q, key %.100q: %w", bucket, key, err)
	}
	return nil
}

// checkRecord is check without the name of the record in the error.
func (c *contents) checkRecord(bucket string, key, value []byte) error {
	switch bucket {
	case "key":
		return c.checkValue(key, value)
	case "meta":
		return checkMeta(string(key), value)
	case "lease":
		var l leasepb.Lease
		if err := proto.Unmarshal(value, &l); err != nil {
			return err
		}
		if len(key) != 8 || int64(binary.BigEndian.Uint64(key)) != l.GetID() {
			return fmt.Errorf("got lease %x, want the one of the key", l.GetID())
		}
	case "alarm":
		return proto.Unmarshal(key, new(etcdserverpb.AlarmMember))
	case "cluster":
		return checkCluster(string(key), value)
	}
	return nil
}

// checkValue checks one revision of one key of the store.
func (c *contents) checkValue(key, value []byte) error {
	rev, err := checkRevision(key)
	if err != nil {
		return err
	}
	if bytes.Compare(key[:revisionLength], c.last[:]) <= 0 {
		return errors.New("the revision appears twice")
	}
	copy(c.last[:], key)
	var kv mvccpb.KeyValue
	if err := proto.Unmarshal(value, &kv); err != nil {
		return err
	}
	switch {
	case len(key) == tombstoneLength:
		if len(kv.Key) == 0 {
			return errors.New("it deletes no key")
		}
	case len(value) == 0: // a restore of etcd adds one to raise the revision
	case len(kv.Key) == 0:
		return errors.New("the value has no key")
	case kv.ModRevision != rev || kv.CreateRevision < 1 || kv.CreateRevision > rev || kv.Version < 1:
		return fmt.Errorf("got version %d of revision %d, created at %d, want one of revision %d", kv.Version, kv.ModRevision, kv.CreateRevision, rev)
	}
	return nil
}

// checkRevision returns the revision in a key of the bucket "key", or in a value about compaction.
func checkRevision(b []byte) (int64, error) {
	if len(b) != revisionLength && (len(b) != tombstoneLength || b[revisionLength] != 't') || b[8] != '_' {
		return 0, errors.New("the revision is malformed")
	}
	rev, sub := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[9:])
	if rev < 1 || rev >= maxRevision || sub >= maxRevision {
		return 0, fmt.Errorf("got revision %d, part %d, want less than %d", rev, sub, int64(maxRevision))
	}
	return int64(rev), nil
}

// checkMeta checks a record of the bucket "meta".
func checkMeta(key string, value []byte) error {
	switch key {
	case "scheduledCompactRev", "finishedCompactRev":
		_, err := checkRevision(value)
		return err
	case "consistent_index", "term":
		if len(value) != 8 {
			return fmt.Errorf("got %d bytes, want 8", len(value))
		}
	case "confState":
		return json.Unmarshal(value, &new(walpb.Snapshot).ConfState)
	case "storageVersion":
		return checkVersion(string(value))
	}
	return nil
}

// checkCluster checks a record of the bucket "cluster".
func checkCluster(key string, value []byte) error {
	switch key {
	case "clusterVersion":
		return checkVersion(string(value))
	case "downgrade":
		var d struct {
			Target  string `json:"target-version"`
			Enabled bool   `json:"enabled"`
		}
		if err := json.Unmarshal(value, &d); err != nil {
			return err
		}
		if d.Enabled {
			return checkVersion(d.Target)
		}
	}
	return nil
}

// checkVersion checks that a version of etcd is one whose data this etcd can use.
func checkVersion(text string) error {
	if len(text) > 100 {
		return fmt.Errorf("got a version of %d bytes", len(text))
	}
	v, err := semver.Parse(text)
	if err != nil {
		return err
	}
	if own := semver.MustParse(version.Version); isForeign(v, own) || v.Patch > 1<<20 {
		return fmt.Errorf("it is of etcd %s, and this keelson has etcd %d.%d: use a newer keelson", v, own.Major, own.Minor)
	}
	return nil
}
