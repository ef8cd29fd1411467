package servertest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/retry"
)

// This file installs CRDs.

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// servedWithin bounds the time until a new kind is served. It usually takes milliseconds.
const servedWithin = 10 * time.Second

// InstallCRDs installs more CRDs; see [CRDs].
func (s *Server) InstallCRDs(paths ...string) {
	s.t.Helper()
	crds, err := readCRDs(paths)
	if err == nil {
		err = s.install(context.Background(), crds)
	}
	if err != nil {
		s.t.Fatalf("servertest: %v", err)
	}
}

// install creates or updates CRDs, and waits until their kinds are served.
func (s *Server) install(ctx context.Context, crds []*unstructured.Unstructured) error {
	client := s.Client.Resource(definitions)
	for _, crd := range crds {
		made, err := client.Create(ctx, crd, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the server may be writing the status at the same time
				have, err := client.Get(ctx, crd.GetName(), metav1.GetOptions{})
				if err == nil {
					crd.SetResourceVersion(have.GetResourceVersion())
					made, err = client.Update(ctx, crd, metav1.UpdateOptions{})
				}
				return err
			})
		}
		if err == nil {
			err = s.reserved(made)
		}
		if err != nil {
			return fmt.Errorf("installing %s: %w", crd.GetName(), err)
		}
	}
	for _, crd := range crds {
		if err := s.served(ctx, crd); err != nil {
			return fmt.Errorf("installing %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// reserved returns why a CRD will never be served, nil if it can be. The condition is stored before
// the create or update of the CRD is answered.
func (s *Server) reserved(crd *unstructured.Unstructured) error {
	have, err := s.Client.Resource(definitions).Get(context.Background(), crd.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(have.Object, "status", "conditions")
	for _, c := range conditions {
		if c, _ := c.(map[string]any); c["type"] == "NamesAccepted" && c["reason"] == "GroupReserved" {
			return fmt.Errorf("%v", c["message"])
		}
	}
	return nil
}

// served waits until all versions of a CRD are served.
func (s *Server) served(ctx context.Context, crd *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, servedWithin)
	defer cancel()
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if served, _ := version["served"].(bool); !served {
			continue
		}
		name, _ := version["name"].(string)
		r := s.Client.Resource(schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
		for {
			_, err := r.List(ctx, metav1.ListOptions{Limit: 1})
			if err == nil {
				break
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return errors.Join(fmt.Errorf("version %s is not served", name), s.conditions(crd.GetName()))
			}
		}
	}
	return nil
}

// conditions returns the conditions of a CRD as an error.
func (s *Server) conditions(name string) error {
	crd, err := s.Client.Resource(definitions).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return fmt.Errorf("its conditions: %v", conditions)
}

// readCRDs reads the CRDs in files and directories. A path without any is an error.
func readCRDs(paths []string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, path := range paths {
		before := len(out)
		err := filepath.WalkDir(path, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			switch filepath.Ext(file) {
			case ".yaml", ".yml", ".json":
			default:
				if file != path {
					return nil
				}
			}
			found, err := readFile(file)
			out = append(out, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(out) == before {
			return nil, fmt.Errorf("%s: no CustomResourceDefinition in it", path)
		}
	}
	return out, nil
}

// readFile reads the CRDs in a file.
func readFile(path string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	r := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		part, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		o := map[string]any{}
		if err := yaml.Unmarshal(part, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if o["kind"] == "CustomResourceDefinition" {
			out = append(out, &unstructured.Unstructured{Object: o})
		}
	}
}
