package etcd

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// This file reads from a snapshot what is stored in it, without a server.

// Inventory is what a snapshot holds.
type Inventory struct {
	Bytes    int64
	Revision int64
	Labels   map[string]string // of the current value of each key
}

// ReadInventory checks a snapshot and reads all its current values. label is called with each value,
// older ones included, and returns a text that does not refer to it.
func ReadInventory(file string, label func(value []byte) string) (*Inventory, error) {
	inv := &Inventory{Labels: map[string]string{}}
	var err error
	inv.Bytes, err = readSnapshot(file, func(bucket string, key, value []byte) error {
		if bucket != "key" {
			return nil
		}
		var kv mvccpb.KeyValue
		if err := proto.Unmarshal(value, &kv); err != nil {
			return err
		}
		inv.Revision = int64(binary.BigEndian.Uint64(key)) // revisions are in order
		if len(key) == tombstoneLength {
			delete(inv.Labels, string(kv.Key))
		} else {
			inv.Labels[string(kv.Key)] = label(kv.Value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return inv, nil
}

// Value is a current value in a snapshot.
type Value struct {
	Key      string
	Revision int64 // of its last change
	Bytes    []byte
}

// ReadValues checks a snapshot and returns the current values of the keys for which keep returns
// true, by their keys.
func ReadValues(file string, keep func(key string) bool) ([]Value, error) {
	current := map[string]Value{}
	_, err := readSnapshot(file, func(bucket string, key, value []byte) error {
		if bucket != "key" {
			return nil
		}
		var kv mvccpb.KeyValue
		if err := proto.Unmarshal(value, &kv); err != nil {
			return err
		}
		if len(key) == tombstoneLength {
			delete(current, string(kv.Key))
		} else if keep(string(kv.Key)) {
			current[string(kv.Key)] = Value{string(kv.Key), kv.ModRevision, kv.Value}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(current), func(a, b Value) int { return strings.Compare(a.Key, b.Key) }), nil
}
