package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-io/keelson/internal/store"
)

// streamingKV counts requests. If err is set, it fails streams.
type streamingKV struct {
	pb.KVClient
	ranges, streams atomic.Int64
	err             error
}

func (c *streamingKV) Range(ctx context.Context, r *pb.RangeRequest, o ...grpc.CallOption) (*pb.RangeResponse, error) {
	c.ranges.Add(1)
	return c.KVClient.Range(ctx, r, o...)
}

func (c *streamingKV) RangeStream(ctx context.Context, r *pb.RangeRequest, o ...grpc.CallOption) (pb.KV_RangeStreamClient, error) {
	c.streams.Add(1)
	if c.err != nil {
		return nil, c.err
	}
	return c.KVClient.RangeStream(ctx, r, o...)
}

// TestLongListsAreStreamed holds that a long list of a cluster is read as a stream, with the answer of a range, and as a range if a
// member has no streams or the stream fails.
func TestLongListsAreStreamed(t *testing.T) {
	ctx := context.Background()
	e := openTest(t, Config{Fast: true})
	s := openTest(t, Config{Endpoints: []string{listen(t, e, nil)}})
	cl := s.(*client).server.(*cluster)
	const many = 2500
	for i := range many {
		if _, err := e.Create(ctx, fmt.Sprintf("g/p/%04d", i), []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	plain := cl.kv
	for _, row := range []struct {
		name            string
		o               store.ListOptions
		err             error
		streams, ranges int64 // of two lists
		items           int
		more            bool
	}{
		{"all", store.ListOptions{}, nil, 2, 0, many, false},
		{"a long page", store.ListOptions{Limit: 2000}, nil, 2, 0, 2000, true},
		{"the rest", store.ListOptions{Limit: 2000, From: "g/p/2000"}, nil, 2, 0, 500, false},
		{"a short page", store.ListOptions{Limit: 500}, nil, 0, 2, 500, true},
		{"a stream that fails", store.ListOptions{}, errors.New("broken"), 2, 2, many, false},
		{"an older member", store.ListOptions{}, status.Error(codes.Unimplemented, "unknown method"), 1, 2, many, false},
	} {
		kv := &streamingKV{KVClient: plain, err: row.err}
		cl.kv = kv
		cl.noStreams.Store(false)
		want, err := e.List(ctx, "g/p/", row.o)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got, err := s.List(ctx, "g/p/", row.o)
			if err != nil {
				t.Fatalf("%s: %v", row.name, err)
			}
			if len(got.Items) != row.items || got.More != row.more || got.Rev != want.Rev || fmt.Sprint(got.Items) != fmt.Sprint(want.Items) {
				t.Errorf("%s: got %d items, more %t, revision %d, want %d, %t, %d", row.name, len(got.Items), got.More, got.Rev, row.items, row.more, want.Rev)
			}
		}
		if a, b := kv.streams.Load(), kv.ranges.Load(); a != row.streams || b != row.ranges {
			t.Errorf("%s: got %d streams and %d ranges, want %d and %d", row.name, a, b, row.streams, row.ranges)
		}
	}
	cl.kv = plain
	cl.noStreams.Store(false)
	if _, err := s.List(ctx, "g/p/", store.ListOptions{Rev: 1 << 40}); !errors.Is(err, store.ErrFuture) {
		t.Errorf("a revision of the future: got %v", err)
	}
}
