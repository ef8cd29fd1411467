package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
)

// opened opens the store in a directory. Its log goes to the returned buffer.
func opened(t *testing.T, dir string) (*client, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	st, err := Open(t.Context(), Config{DataDir: dir, CompactInterval: -1, Fast: true, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st.(*client), log
}

// fillKeys creates keys with values that can be found in the database file.
func fillKeys(t *testing.T, c *client, n int) {
	t.Helper()
	for i := range n {
		if _, err := c.Create(t.Context(), fmt.Sprintf("k/%04d", i), fmt.Appendf(nil, `{"value":"value-of-%04d"}`, i)); err != nil {
			t.Fatal(err)
		}
	}
}

// flip changes one bit of every occurrence of a text in a file.
func flip(t *testing.T, path, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for at := bytes.Index(b, []byte(text)); at >= 0; at = bytes.Index(b, []byte(text)) {
		b[at+len(text)-1] ^= 0x10
		n++
	}
	if n == 0 {
		t.Fatalf("%q is not in %s", text, path)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFlippedBit(t *testing.T) {
	dir := t.TempDir()
	c, _ := opened(t, dir)
	fillKeys(t, c, 50)
	c.Close()
	flip(t, filepath.Join(dir, memberDir, snapDir, dbFile), "value-of-0007")

	c, log := opened(t, dir)
	if got := log.String(); !strings.Contains(got, "a stored value is damaged") || !strings.Contains(got, "key=/registry/k/0007") {
		t.Errorf("start: got log %s", got)
	}
	page, err := c.List(t.Context(), "k/", store.ListOptions{})
	if err != nil || len(page.Items) != 50 {
		t.Fatalf("got %d items, %v", len(page.Items), err)
	}
	for i, it := range page.Items {
		if damaged := bytes.HasPrefix(it.Value, []byte(store.DamagedPrefix)); damaged != (i == 7) {
			t.Errorf("%s: got %s", it.Key, it.Value)
		}
	}
	item, err := c.Get(t.Context(), "k/0007")
	if err != nil || !bytes.Equal(item.Value, store.Damaged("k/0007")) {
		t.Errorf("get: got %s, %v", item.Value, err)
	}
	if err := c.Snapshot(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), `"/registry/k/0007"`) {
		t.Errorf("snapshot: got %v, want an error that names the key", err)
	}
	w, err := c.Watch(t.Context(), "k/", page.Items[6].Rev)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	b, err := w.Next(t.Context())
	if err != nil || len(b.Events) == 0 || !bytes.Equal(b.Events[0].Value, store.Damaged("k/0007")) {
		t.Errorf("history: got %+v, %v", b, err)
	}
	var changed *store.Changed
	if _, err := c.Update(t.Context(), "k/0007", nil, item.Rev-1); !errors.As(err, &changed) || !bytes.Equal(changed.Current.Value, item.Value) {
		t.Errorf("conflict: got %v", err)
	}
	rev, err := c.Delete(t.Context(), "k/0007", item.Rev)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), "k/0007", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	c.Close()
	c, log = opened(t, dir)
	if err := c.Snapshot(t.Context(), io.Discard); err != nil || strings.Contains(log.String(), "damaged") {
		t.Errorf("after the delete: got %v, log %s", err, log)
	}
}

// TestSumsFile starts with files of checksums that are missing, torn, or of something else. No intact
// value is taken for a damaged one.
func TestSumsFile(t *testing.T) {
	dir := t.TempDir()
	c, _ := opened(t, dir)
	fillKeys(t, c, 20)
	c.Close()
	path := filepath.Join(dir, sumsFile)
	saved, err := os.ReadFile(path)
	if err != nil || len(saved) != len(sumsHeader)+20*sumSize {
		t.Fatalf("got %d bytes, %v, want 20 records", len(saved), err)
	}
	other := []byte(sumsHeader)
	for rev := int64(1); rev < 30; rev++ {
		other = sumOf(rev, []byte("another"), []byte("store")).encode(other)
	}
	future := sumOf(25, []byte("/registry/k/x"), []byte("a write that was lost")).encode(slices.Clone(saved))
	for name, file := range map[string][]byte{
		"missing": nil, "empty": {}, "header only": []byte(sumsHeader), "other program": []byte("something else that is long enough"), "torn": saved[:len(saved)-7],
		"zeros at the end": append(slices.Clone(saved), make([]byte, 4096)...), "other store": other, "lost writes": future,
		"half": saved[:len(sumsHeader)+10*sumSize], "record": func() []byte { b := slices.Clone(saved); b[len(b)-10] ^= 1; return b }(),
		"other order": append(saved[:len(sumsHeader):len(sumsHeader)], append(slices.Clone(saved[len(sumsHeader)+5*sumSize:]), saved[len(sumsHeader):len(sumsHeader)+5*sumSize]...)...),
	} {
		t.Run(name, func(t *testing.T) {
			if file == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, file, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			c, log := opened(t, dir)
			if err := c.Snapshot(t.Context(), io.Discard); err != nil || strings.Contains(log.String(), "damaged") {
				t.Errorf("got %v, log %s", err, log)
			}
			c.Close()
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, saved) {
				t.Errorf("the file was not made again: %d bytes, %v", len(now), err)
			}
		})
	}
}

// TestSumsFollowTheStore writes, compacts, kills and starts at random. After each start every value
// has the checksum that it was written with, and compaction bounds their number.
func TestSumsFollowTheStore(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	ctx := context.Background()
	c, _ := opened(t, dir)
	for round := range 6 {
		for range 200 {
			key := fmt.Sprintf("k/%d", r.IntN(20))
			item, err := c.Get(ctx, key)
			switch {
			case errors.Is(err, store.ErrNotFound):
				_, err = c.Create(ctx, key, fmt.Append(nil, r.Uint64()))
			case err == nil && r.IntN(3) == 0:
				_, err = c.Delete(ctx, key, item.Rev)
			case err == nil:
				_, err = c.Update(ctx, key, fmt.Append(nil, r.Uint64()), item.Rev)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		rev, err := c.Revision(ctx)
		if err != nil {
			t.Fatal(err)
		}
		e := c.server.(*embedded)
		if round%2 == 0 {
			if err := c.Compact(ctx, rev-3); err != nil {
				t.Fatal(err)
			}
			if n := len(e.sums.list); n > 20+3 {
				t.Errorf("%d checksums after compaction, want those of 20 keys and 3 changes at most", n)
			}
		}
		if round%3 == 0 { // as if the process were killed: nothing more is written
			e.sums.mu.Lock()
			e.sums.pending, e.sums.closed = nil, true
			e.sums.mu.Unlock()
		}
		c.Close()
		again, log := opened(t, dir)
		c = again
		if _, err := store.Each(ctx, c, "k/", 0, func(it *store.Item) error {
			want, has := c.server.(*embedded).sums.find(it.Rev)
			if got := sumOf(it.Rev, []byte("/registry/"+it.Key), it.Value); !has || got != want {
				t.Errorf("%s: got %+v, want %+v, %v", it.Key, got, want, has)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "damaged") {
			t.Errorf("log: %s", log)
		}
	}
}

// TestSumsWithoutRoom holds that a file of checksums that cannot be written fails no write.
func TestSumsWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	c, _ := opened(t, dir)
	s := c.server.(*embedded).sums
	s.io.Lock()
	s.file.Close() // writes fail from now on
	s.io.Unlock()
	fillKeys(t, c, 5)
	s.flush()
	page, err := c.List(t.Context(), "k/", store.ListOptions{})
	if err != nil || len(page.Items) != 5 {
		t.Fatalf("got %d items, %v", len(page.Items), err)
	}
	if err := c.Compact(t.Context(), page.Rev); err != nil {
		t.Fatal(err)
	}
	c.Close()
	c, log := opened(t, dir)
	if err := c.Snapshot(t.Context(), io.Discard); err != nil || strings.Contains(log.String(), "damaged") {
		t.Errorf("got %v, log %s", err, log)
	}
}

// BenchmarkSum measures what checksums add to a write: one of the value and its record, and one that
// compares the change that watchers get.
func BenchmarkSum(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := &sums{path: filepath.Join(b.TempDir(), sumsFile), log: slog.Default()}
			if err := s.rewrite(); err != nil {
				b.Fatal(err)
			}
			key, value := []byte("/registry/example.com/widgets/default/a-name-of-usual-length"), make([]byte, size)
			b.ReportAllocs()
			rev := int64(0)
			for b.Loop() {
				rev++
				s.add(sumOf(rev, key, value))
				if !s.check(rev, key, value) {
					b.Fatal("damaged")
				}
			}
			s.close()
		})
	}
}
