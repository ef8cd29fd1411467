package etcd

import (
	"encoding/binary"
	"fmt"
	"os"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// This file reads from a snapshot what is stored in it, without a server.

// Lengths of a key in the database: a revision, '_', its part in a transaction, and a mark if the key
// was deleted (package mvcc of etcd).
const (
	revisionLength  = 17
	tombstoneLength = 18
)

// Inventory is what a snapshot holds.
type Inventory struct {
	Bytes    int64
	Revision int64
	Labels   map[string]string // of the current value of each key
}

// ReadInventory checks a snapshot and reads all its current values. label is called with each value,
// older ones included, and returns a text that does not refer to it.
func ReadInventory(file string, label func(value []byte) string) (*Inventory, error) {
	if err := CheckSnapshot(file); err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	inv := &Inventory{Bytes: info.Size(), Labels: map[string]string{}}
	var malformed error
	err = readDBFile(f, func(bucket string, key, value []byte) {
		if bucket != "key" || malformed != nil {
			return
		}
		var kv mvccpb.KeyValue
		if len(key) != revisionLength && len(key) != tombstoneLength {
			malformed = fmt.Errorf("%s: got a revision of %d bytes, want %d or %d", file, len(key), revisionLength, tombstoneLength)
			return
		}
		if err := proto.Unmarshal(value, &kv); err != nil {
			malformed = fmt.Errorf("%s: revision %x: %w", file, key, err)
			return
		}
		inv.Revision = int64(binary.BigEndian.Uint64(key)) // revisions are in order
		if len(key) == tombstoneLength {
			delete(inv.Labels, string(kv.Key))
			return
		}
		inv.Labels[string(kv.Key)] = label(kv.Value)
	})
	if err == nil {
		err = malformed
	}
	if err != nil {
		return nil, err
	}
	return inv, nil
}
