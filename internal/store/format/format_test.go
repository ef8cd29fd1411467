package format

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`{"format":1}`: "",
		`{"format":7,"minimum":3,"later":{"a":[1]}}`: "",
		`{"format":0}`:             "got format 0",
		`{"minimum":1}`:            "got format 0",
		`{"format":2,"minimum":3}`: "got format 2 and minimum 3",
		`{"format":-1}`:            "got format -1",
		`{"format":1e99}`:          "format record: json",
		``:                         "format record: ",
		`{"format":1}` + strings.Repeat(" ", maxRecord): "want at most 65536",
	} {
		_, err := Parse([]byte(text))
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) {
			t.Errorf("%.40s: got %v, want %q", text, err, want)
		}
	}
}

// testDir is a directory whose store is a counter.
type testDir struct {
	Dir
	ran []string
}

func newDir(t *testing.T, own int) *testDir {
	d := &testDir{}
	d.Path, d.Own, d.Release = t.TempDir(), own, fmt.Sprintf("v%d", own)
	d.reset(own)
	return d
}

func (d *testDir) reset(own int) {
	d.Own, d.ran, d.interrupt = own, nil, nil
	d.Snapshot = func(file string) error {
		d.ran = append(d.ran, "snapshot")
		return os.WriteFile(file, nil, 0o600)
	}
	d.Steps = map[int]func() error{}
	for f := 2; f <= own; f++ {
		if f != 3 { // a format without a step
			d.Steps[f] = func() error { d.ran = append(d.ran, fmt.Sprint(f)); return nil }
		}
	}
}

func (d *testDir) upgrade(t *testing.T, isNew bool, want ...string) {
	t.Helper()
	d.ran = nil
	upgraded, err := d.Upgrade(isNew)
	if err != nil || upgraded != (len(want) > 0) || !slices.Equal(d.ran, want) {
		t.Errorf("upgrade: got %v %v %v, want %v", upgraded, d.ran, err, want)
	}
	if r, err := d.Read(); err != nil || r.Format != d.Own {
		t.Errorf("record: got %+v %v, want format %d", r, err, d.Own)
	}
}

// TestOverwrittenRecord checks that the error of a record that is not one says what to do.
func TestOverwrittenRecord(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "format record: got an empty one; ",
		"x":                               "format record: invalid character 'x' ",
		strings.Repeat(" ", maxRecord+10): "format record: got 65537 bytes, want at most 65536; ",
	} {
		d := newDir(t, 1)
		path := filepath.Join(d.Path, File)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		const advice = "if it was overwritten, put a copy in its place, or remove it if no release newer than this one has used the directory"
		err := d.Check()
		if err == nil || !strings.HasPrefix(err.Error(), path+": "+want) || !strings.HasSuffix(err.Error(), advice) {
			t.Errorf("%.9q: got %v, want %q and advice", text, err, want)
		}
	}
}

func TestUpgrade(t *testing.T) {
	d := newDir(t, 1)
	d.upgrade(t, false) // without a record: format 1
	d.upgrade(t, false)
	d.reset(4)
	d.upgrade(t, false, "snapshot", "2", "4")
	d.upgrade(t, false)
	older := &Dir{Path: d.Path, Own: 3}
	err := older.Check()
	var newer *NewerError
	if !errors.As(err, &newer) || newer.Record.Format != 4 || !strings.Contains(err.Error(), "before-format-4.db") || !strings.Contains(err.Error(), "keelson v1") {
		t.Errorf("an older release: got %v", err)
	}
	for own := 5; own <= 9; own++ {
		d.reset(own)
		d.upgrade(t, false, "snapshot", fmt.Sprint(own))
	}
	if got, want := d.snapshots(), []string{"before-format-7.db", "before-format-8.db", "before-format-9.db"}; !slices.Equal(got, want) {
		t.Errorf("snapshots: got %v, want %v", got, want)
	}
	d.reset(11)
	if err := os.WriteFile(filepath.Join(d.Path, Snapshots, "before-format-1x.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.upgrade(t, false, "snapshot", "10", "11")
	if got, want := d.snapshots(), []string{"before-format-8.db", "before-format-9.db", "before-format-11.db"}; !slices.Equal(got, want) {
		t.Errorf("snapshots: got %v, want %v", got, want)
	}
	if _, err := os.Stat(filepath.Join(d.Path, Snapshots, "before-format-1x.db")); err != nil {
		t.Error("a file that is not a snapshot was removed")
	}
	fresh := newDir(t, 5)
	fresh.upgrade(t, true)
}

// TestInterruptedUpgrade ends an upgrade before each of its parts. The record is the old one until
// the end, and the next upgrade repeats everything.
func TestInterruptedUpgrade(t *testing.T) {
	killed := errors.New("killed")
	for _, part := range []string{"snapshot", "format 2", "format 3", "format 4", "record"} {
		d := newDir(t, 4)
		d.interrupt = func(before string) error {
			if before == part {
				return killed
			}
			return nil
		}
		if _, err := d.Upgrade(false); !errors.Is(err, killed) {
			t.Errorf("%s: got %v", part, err)
		}
		if err := (&Dir{Path: d.Path, Own: 1}).Check(); err != nil {
			t.Errorf("%s: the release before: %v", part, err)
		}
		d.interrupt = nil
		d.upgrade(t, false, "snapshot", "2", "4")
	}
	d := newDir(t, 2)
	d.Snapshot = func(string) error { return store.ErrDiskFull }
	if _, err := d.Upgrade(false); !errors.Is(err, store.ErrDiskFull) || !strings.Contains(err.Error(), "taking a snapshot") {
		t.Errorf("a full disk: got %v", err)
	}
	if len(d.ran) > 0 {
		t.Errorf("steps ran without a snapshot: %v", d.ran)
	}
	damaged := filepath.Join(d.Path, File)
	for _, text := range []string{"", "{", `{"format":"2"}`} {
		if err := os.WriteFile(damaged, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.Check(); err == nil || !strings.Contains(err.Error(), damaged) {
			t.Errorf("record %q: got %v, want an error that names it", text, err)
		}
	}
}

func TestAgree(t *testing.T) {
	ctx := t.Context()
	st := mem.New(mem.Options{})
	defer st.Close()
	agree := func(format, minimum int) error {
		return Agree(ctx, st, "objects", Record{Format: format, Minimum: minimum})
	}
	stored := func(want int) {
		t.Helper()
		item, err := st.Get(ctx, Key)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := Parse(item.Value); err != nil || r.Format != want {
			t.Errorf("stored: got %+v %v, want format %d", r, err, want)
		}
	}
	for _, row := range []struct {
		format, minimum, stored int
		refused                 bool
	}{
		{1, 1, 1, false},
		{2, 1, 2, false}, // a server of the next release
		{1, 1, 2, false}, // beside one of the release before, which does not lower the record
		{3, 2, 3, false},
		{1, 1, 3, true}, // from now on that release is refused
		{2, 2, 3, false},
	} {
		err := agree(row.format, row.minimum)
		var newer *NewerError
		if errors.As(err, &newer) != row.refused || err != nil && !row.refused {
			t.Errorf("format %d: got %v, want refused: %v", row.format, err, row.refused)
		}
		stored(row.stored)
	}
	item, err := st.Get(ctx, Key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Update(ctx, Key, []byte(`{"format":9,"minimum":2,"unknown":true}`), item.Rev); err != nil {
		t.Fatal(err)
	}
	if err := agree(2, 2); err != nil {
		t.Errorf("unknown members: %v", err)
	}
	stored(9)
}

// TestAgreeAtOnce lets servers of several releases start at the same time.
func TestAgreeAtOnce(t *testing.T) {
	st := mem.New(mem.Options{})
	defer st.Close()
	errs := make(chan error)
	for i := range 20 {
		go func() { errs <- Agree(t.Context(), st, "objects", Record{Format: 1 + i%4, Minimum: 1}) }()
	}
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	item, err := st.Get(t.Context(), Key)
	if r, parseErr := Parse(item.Value); err != nil || parseErr != nil || r.Format != 4 {
		t.Errorf("got %+v %v %v, want format 4", r, err, parseErr)
	}
}

func TestFollow(t *testing.T) {
	st := mem.New(mem.Options{})
	defer st.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	followed := make(chan error, 1)
	go func() { followed <- Follow(ctx, st, "objects", Record{Format: 1}) }()
	for _, r := range []Record{{Format: 1}, {Format: 2, Minimum: 1}, {Format: 3, Minimum: 3}} {
		select {
		case err := <-followed:
			t.Fatalf("before %+v: got %v", r, err)
		default:
		}
		if err := Agree(ctx, st, "objects", r); err != nil {
			t.Fatal(err)
		}
	}
	var newer *NewerError
	if err := <-followed; !errors.As(err, &newer) || newer.Record.Format != 3 {
		t.Errorf("got %v, want a refusal of format 3", err)
	}
}
