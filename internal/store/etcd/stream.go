package etcd

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// This file reads long lists of a cluster in pieces: etcd 3.7 and newer send them as a stream
// (RangeStream), so that neither side holds the list as one message besides its items.

// streamed is the least number of keys for which a list is read as a stream. A shorter one is one
// round trip either way.
const streamed = 1000

// Range sends a read to the cluster, with a deadline if the context has none.
func (c *cluster) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	ctx, cancel := limit(ctx)
	defer cancel()
	isList := len(r.RangeEnd) > 0 && !r.CountOnly && (r.Limit == 0 || r.Limit >= streamed)
	if !isList || c.noStreams.Load() {
		return c.kv.Range(ctx, r)
	}
	answer, err := c.rangeStream(ctx, r)
	switch {
	case err == nil || ctx.Err() != nil:
		return answer, err
	case status.Code(err) == codes.Unimplemented: // an older member; a newer one may be asked next time, or not
		c.noStreams.Store(true)
	}
	// The client tries a range again at another member, which it does not for streams.
	return c.kv.Range(ctx, r)
}

// errUnended is the error of a stream without its last piece.
var errUnended = errors.New("etcd ended a list before its last piece")

// rangeStream reads a list as a stream. The last piece has the header.
func (c *cluster) rangeStream(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the stream also after an error here
	defer cancel()
	stream, err := c.kv.RangeStream(ctx, r)
	if err != nil {
		return nil, err
	}
	all := &pb.RangeResponse{}
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if all.Header == nil {
				return nil, errUnended
			}
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		p := piece.GetRangeResponse()
		all.Kvs = append(all.Kvs, p.GetKvs()...)
		if p.GetHeader() != nil {
			all.Header, all.More, all.Count = p.Header, p.More, p.Count
		}
	}
}
