package etcd

// This file tests the texts of errors.

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestPlainErrors holds that errors have short texts without gRPC's framing, and still match with
// errors.Is.
func TestPlainErrors(t *testing.T) {
	for _, c := range []struct{ message, want string }{
		{`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`, "dial tcp 127.0.0.1:1: connect: connection refused"},
		{`connection error: desc = "transport: authentication handshake failed: EOF"`, "authentication handshake failed: EOF"},
		{`connection error: desc = "error reading server preface: raw-read tcp 127.0.0.1:5->127.0.0.1:2: use of closed network connection"`, "etcd does not answer"},
		{"etcdserver: request timed out", "etcdserver: request timed out"},
	} {
		err := status.Error(codes.Unavailable, c.message)
		if got := plain(err); got.Error() != c.want || !errors.Is(got, err) {
			t.Errorf("%s:\ngot  %v\nwant %s", c.message, got, c.want)
		}
	}
	if err := errors.New("no status"); plain(err) != err {
		t.Errorf("got %v", plain(err))
	}
}
