package server

import (
	"github.com/keelson-io/keelson/internal/api/program"
	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/authn/serviceaccount"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/encrypt"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file names the types of a Config that other packages define.

// A Database makes and opens the store. Package server/etcd has one.
type Database = store.Database

// A Store holds the data. [InMemory] makes one.
type Store = store.Store

// InMemory returns a store whose data is lost when the process ends.
func InMemory() Store { return mem.New(mem.Options{}) }

// Authorization is what the flags of kube-apiserver about authorization set: Modes, ConfigFile, …
type Authorization = config.Flags

// AuditLog is what the flags --audit-log-* of kube-apiserver set.
type AuditLog = audit.LogConfig

// AuditWebhook is what the flags --audit-webhook-* of kube-apiserver set.
type AuditWebhook = audit.WebhookConfig

// DialKMS connects to a KMS plugin at a socket.
type DialKMS = encrypt.Dial

// DialSigner connects to a program that signs service account tokens, at a socket.
type DialSigner = serviceaccount.Dial

// ProgramVersion describes a build of Keelson.
type ProgramVersion = program.Version
