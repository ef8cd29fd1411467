package etcd

// This file reads the entries of etcd's bucket "key" and compares their checksums: a change of a key
// in each, under its revision.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of mvccpb.KeyValue.
const (
	keyField         = 1
	modRevisionField = 3
	valueField       = 5
)

// entry is a change as the database has it. Its bytes belong to the database.
type entry struct {
	rev, sub   int64
	deleted    bool
	key, value []byte
}

// errEmptyEntry is returned for an entry without a key, which marks the revision of a restored
// store.
var errEmptyEntry = errors.New("no key")

// decodeEntry decodes an entry without a copy.
func decodeEntry(at, text []byte) (e entry, err error) {
	// Eight bytes of the revision, an underscore, eight of the change in it, and a t if the key was
	// deleted.
	const size = 8 + 1 + 8
	if len(at) < size || len(at) > size+1 || at[8] != '_' {
		return e, fmt.Errorf("entry %x: its key is not a revision", at)
	}
	e.rev, e.sub, e.deleted = int64(binary.BigEndian.Uint64(at)), int64(binary.BigEndian.Uint64(at[9:])), len(at) > size
	if len(text) == 0 {
		return e, errEmptyEntry
	}
	malformed := fmt.Errorf("revision %d: its value is not that of a key", e.rev)
	mod := int64(0)
	for len(text) > 0 {
		number, kind, n := protowire.ConsumeTag(text)
		if n < 0 {
			return e, malformed
		}
		text = text[n:]
		switch {
		case kind == protowire.BytesType && (number == keyField || number == valueField):
			var b []byte
			if b, n = protowire.ConsumeBytes(text); number == keyField {
				e.key = b
			} else {
				e.value = b
			}
		case kind == protowire.VarintType && number == modRevisionField:
			var v uint64
			v, n = protowire.ConsumeVarint(text)
			mod = int64(v)
		default:
			n = protowire.ConsumeFieldValue(number, kind, text)
		}
		if n < 0 {
			return e, malformed
		}
		text = text[n:]
	}
	if len(e.key) == 0 || !e.deleted && mod != e.rev {
		return e, malformed
	}
	return e, nil
}

// entry adds an entry of the database to the comparison.
func (s *sumsScan) entry(at, text []byte) error {
	e, err := decodeEntry(at, text)
	if errors.Is(err, errEmptyEntry) {
		return nil
	}
	if err != nil {
		return err
	}
	s.change(e.rev, e.sub, e.deleted, e.key, e.value)
	return nil
}

// checkEvery is the number of entries after which checkValues checks whether its context has ended.
const checkEvery = 1000

// checkValues returns an error for the first value in the database whose checksum is wrong.
func (e *embedded) checkValues(ctx context.Context) (err error) {
	if e.sums == nil {
		return nil
	}
	faults := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(faults)
		if cause := recover(); cause != nil {
			err = e.dieOf(cause)
		}
	}()
	tx := e.Backend().ConcurrentReadTx()
	tx.RLock()
	defer tx.RUnlock()
	n := 0
	return tx.UnsafeForEach(schema.Key, func(at, text []byte) error {
		if n++; n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		c, err := decodeEntry(at, text)
		switch {
		case errors.Is(err, errEmptyEntry), err == nil && c.deleted:
			return nil
		case err != nil:
			return fmt.Errorf("the database is damaged: %w", err)
		}
		want, has := e.sums.find(c.rev)
		if has && want.kind != ofSeveral && want != sumOf(c.rev, c.key, c.value) {
			return fmt.Errorf("the value of key %q at revision %d is damaged, its checksum is wrong: delete the object, or restore an older snapshot", c.key, c.rev)
		}
		return nil
	})
}
