//go:build tools

package kubeintegration

// This file names what upstream's tests and the binaries beside them are built from, for go mod tidy.

import (
	_ "github.com/google/go-cmp/cmp/cmpopts"
	_ "github.com/onsi/gomega/format"
	_ "github.com/prometheus/common/expfmt"
	_ "github.com/stretchr/testify/assert"
	_ "github.com/stretchr/testify/require"
	_ "go.etcd.io/etcd/server/v3"
	_ "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	_ "go.uber.org/goleak"
	_ "golang.org/x/net/websocket"
	_ "gopkg.in/go-jose/go-jose.v2/jwt"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
	_ "k8s.io/kubernetes/test/integration/etcd"
	_ "k8s.io/kubernetes/test/integration/framework"
	_ "k8s.io/kubernetes/test/integration/util"
	_ "k8s.io/kubernetes/test/utils/ktesting"
	_ "k8s.io/sample-apiserver/pkg/cmd/server"
)
