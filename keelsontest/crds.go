package keelsontest

// This file installs CustomResourceDefinitions. The binary reads the files, so that errors have their
// positions.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// InstallCRDs installs or updates definitions while the server runs; see [CRDs]. It returns when they
// are served.
func (s *Server) InstallCRDs(ctx context.Context, paths ...string) error {
	if err := s.install(ctx, paths); err != nil {
		return fmt.Errorf("keelsontest: %w", err)
	}
	return nil
}

// definition is what this package reads of a CustomResourceDefinition.
type definition struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Group    string
		Names    struct{ Plural string }
		Versions []struct {
			Name   string
			Served bool
		}
	}
	Status struct {
		Conditions []struct{ Type, Status, Reason, Message string }
	}
}

// install installs the definitions of files and directories.
func (s *Server) install(ctx context.Context, paths []string) error {
	files, err := definitionFiles(paths)
	if err != nil || len(files) == 0 {
		return err
	}
	args := []string{"normalize", "-o", "json"}
	for _, f := range files {
		args = append(args, "-f", f) // for the objects of their kinds in the same files
	}
	text, err := output(exec.CommandContext(ctx, s.binary, append(append(args, "--"), files...)...))
	if err != nil {
		return fmt.Errorf("reading definitions: %w", err)
	}
	var all []definition
	in := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		if err := in.Decode(&raw); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		var d definition
		if err := json.Unmarshal(raw, &d); err != nil || d.Kind != "CustomResourceDefinition" {
			continue // another object of the file
		}
		if err := s.apply(ctx, &d, raw); err != nil {
			return fmt.Errorf("installing %s: %w", d.Metadata.Name, err)
		}
		all = append(all, d)
	}
	for i := range all {
		if err := s.served(ctx, &all[i]); err != nil {
			return fmt.Errorf("installing %s: %w", all[i].Metadata.Name, err)
		}
	}
	return nil
}

// definitionsPath is the path of definitions in the API.
const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"

// apply creates or updates a definition.
func (s *Server) apply(ctx context.Context, d *definition, text []byte) error {
	path := definitionsPath + url.PathEscape(d.Metadata.Name) + "?fieldManager=keelsontest&force=true"
	code, answer, err := s.access.do(ctx, http.MethodPatch, path, "application/apply-patch+yaml", text)
	if err != nil {
		return err
	}
	if code != http.StatusOK && code != http.StatusCreated {
		return refusal(code, answer)
	}
	return nil
}

// refusal returns the error of an answer.
func refusal(code int, answer []byte) error {
	var status struct{ Message string }
	if json.Unmarshal(answer, &status) != nil || status.Message == "" {
		return fmt.Errorf("the server answers %d: %.500s", code, answer)
	}
	return errors.New(status.Message)
}

// served waits until all versions of a definition are served.
func (s *Server) served(ctx context.Context, d *definition) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		missing, err := s.missing(ctx, d)
		if err != nil || missing == "" {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", missing, ctx.Err())
		}
	}
}

// missing returns what a definition still lacks to be served. The error is one that stays.
func (s *Server) missing(ctx context.Context, d *definition) (string, error) {
	code, answer, err := s.access.do(ctx, http.MethodGet, definitionsPath+url.PathEscape(d.Metadata.Name), "", nil)
	if err != nil {
		return "", err
	}
	if code != http.StatusOK {
		return "", refusal(code, answer)
	}
	var now definition
	if err := json.Unmarshal(answer, &now); err != nil {
		return "", err
	}
	established := false
	for _, c := range now.Status.Conditions {
		switch {
		case c.Status == "False" && (c.Type == "NamesAccepted" || c.Type == "NonStructuralSchema"):
			return "", fmt.Errorf("condition %s: %s: %s", c.Type, c.Reason, c.Message)
		case c.Type == "Established":
			established = c.Status == "True"
		}
	}
	if !established {
		return "the definition is not established", nil
	}
	for _, v := range d.Spec.Versions {
		if !v.Served {
			continue
		}
		path := fmt.Sprintf("/apis/%s/%s/%s?limit=1", d.Spec.Group, v.Name, d.Spec.Names.Plural)
		code, answer, err := s.access.do(ctx, http.MethodGet, path, "", nil)
		switch {
		case err != nil:
			return "", err
		case code == http.StatusNotFound:
			return "version " + v.Name + " is not served", nil
		case code != http.StatusOK:
			return "", refusal(code, answer)
		}
	}
	return "", nil
}

// aDefinition matches a file that probably has a definition in it.
var aDefinition = regexp.MustCompile(`["']?kind["']?\s*:\s*["']?CustomResourceDefinition\b`)

// definitionFiles returns the files with definitions. A path without any is an error.
func definitionFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		before := len(files)
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
			text, err := os.ReadFile(file)
			if err == nil && aDefinition.Match(text) {
				files = append(files, file)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(files) == before {
			return nil, fmt.Errorf("%s: no CustomResourceDefinition in it", path)
		}
	}
	return files, nil
}
