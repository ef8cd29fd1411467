// Package kms calls the KMS plugins of package encrypt by gRPC, version 2 of Kubernetes' protocol. It
// is apart from package encrypt so that programs without such plugins do not link gRPC.
//
// The function to call: Dial.
package kms

// This file is the whole package.

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/keelson-io/keelson/internal/store/encrypt"
)

// plugin implements encrypt.Plugin over a connection.
type plugin struct {
	conn   *grpc.ClientConn
	client kmsapi.KeyManagementServiceClient
}

// Dial implements encrypt.Dial. A socket that begins with /@ is in the abstract namespace.
func Dial(socket string) (encrypt.Plugin, error) {
	if strings.HasPrefix(socket, "/@") {
		socket = socket[1:]
	}
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithAuthority("localhost"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		return nil, err
	}
	return &plugin{conn, kmsapi.NewKeyManagementServiceClient(conn)}, nil
}

// callError returns the error of a call as a *encrypt.PluginError.
func callError(err error) error {
	code := status.Code(err)
	unreachable := code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
	return &encrypt.PluginError{Code: code.String(), Unreachable: unreachable, Err: err}
}

// Status implements encrypt.Plugin.
func (p *plugin) Status(ctx context.Context) (*encrypt.PluginStatus, error) {
	r, err := p.client.Status(ctx, &kmsapi.StatusRequest{})
	if err != nil {
		return nil, callError(err)
	}
	return &encrypt.PluginStatus{Version: r.Version, Healthz: r.Healthz, KeyID: r.KeyId}, nil
}

// Encrypt implements encrypt.Plugin.
func (p *plugin) Encrypt(ctx context.Context, uid string, plain []byte) (*encrypt.Sealed, error) {
	r, err := p.client.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: plain, Uid: uid})
	if err != nil {
		return nil, callError(err)
	}
	return &encrypt.Sealed{Text: r.Ciphertext, KeyID: r.KeyId, Annotations: r.Annotations}, nil
}

// Decrypt implements encrypt.Plugin.
func (p *plugin) Decrypt(ctx context.Context, uid string, sealed *encrypt.Sealed) ([]byte, error) {
	r, err := p.client.Decrypt(ctx, &kmsapi.DecryptRequest{
		Ciphertext: sealed.Text, Uid: uid, KeyId: sealed.KeyID, Annotations: sealed.Annotations,
	})
	if err != nil {
		return nil, callError(err)
	}
	return r.Plaintext, nil
}

// Close implements encrypt.Plugin.
func (p *plugin) Close() error { return p.conn.Close() }
