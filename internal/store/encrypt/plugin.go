package encrypt

import "context"

// This file declares how KMS plugins are called. Package internal/store/encrypt/kms calls them by gRPC.

// Dial connects to the KMS plugin at a Unix socket. A plugin that cannot be reached now is not an error.
type Dial func(socket string) (Plugin, error)

// Plugin calls a KMS plugin, by version 2 of its protocol. Its methods return a *PluginError if the
// call failed.
type Plugin interface {
	Status(ctx context.Context) (*PluginStatus, error)
	// Encrypt encrypts a text. uid identifies the call in the plugin's log.
	Encrypt(ctx context.Context, uid string, plain []byte) (*Sealed, error)
	Decrypt(ctx context.Context, uid string, sealed *Sealed) (plain []byte, err error)
	Close() error
}

// PluginStatus is the state of a plugin.
type PluginStatus struct {
	Version string // of the protocol
	Healthz string // "ok", or what is wrong
	KeyID   string // identifies the key that encrypts now
}

// Sealed is a text that a plugin has encrypted.
type Sealed struct {
	Text        []byte
	KeyID       string
	Annotations map[string][]byte // returned to the plugin for decryption
}

// PluginError is the error of a call.
type PluginError struct {
	Code        string // of gRPC, such as PermissionDenied
	Unreachable bool   // the plugin did not answer
	Err         error
}

// Error implements error.
func (e *PluginError) Error() string { return e.Err.Error() }

// Unwrap is for package errors.
func (e *PluginError) Unwrap() error { return e.Err }
