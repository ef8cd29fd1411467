//go:build tools

package main

// This file names what the generator reads and runs, for go mod tidy.

import (
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	_ "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "k8s.io/kube-openapi/cmd/openapi-gen"
	_ "k8s.io/kube-openapi/pkg/builder3/util"
	_ "k8s.io/kube-openapi/pkg/common"
)
