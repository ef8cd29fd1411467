// Package crdsource reads definitions from where they are published: files, URLs, git revisions,
// clusters and catalogues.
//
// # Model
//
// A source is a text that the user writes for --crd. Its form says what it is:
//
//	crds/, crds.yaml, 'crds/*.yaml', -     files, folders, globs, standard input
//	https://example.com/crds.yaml          a URL
//	git:main:crds/                         a folder or file in a git revision
//	schemas/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json
//	                                       a catalogue: the path or URL of the file for each kind
//
// [Reader.Read] returns the documents of all sources but catalogues. A [Catalogue] is asked for the
// kinds that are needed. [Cluster] lists the definitions of a cluster.
//
// # Invariants
//
//   - Everything that is read is bounded, in size and in time.
//   - Nothing is sent to a server but requests to read.
//   - An error names the source and says what to write instead.
package crdsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/keelson-io/keelson/internal/manifest"
)

// Bounds of a source that is not a file.
const (
	MaxBytes = 64 << 20         // of all files of a source
	MaxTime  = 60 * time.Second // for a source, or for one file of a catalogue
)

// Reader reads sources.
type Reader struct {
	Stdin io.Reader
	// Files says which files below folders and globs are read.
	Files manifest.Options
	// Client sends the requests for URLs; nil stands for a client with the proxies of the
	// environment.
	Client *http.Client
}

// IsCatalogue reports whether a source is a catalogue.
func IsCatalogue(source string) bool { return strings.Contains(source, "{{") }

// Read returns the documents of a source that is not a catalogue.
func (r *Reader) Read(ctx context.Context, source string) ([]manifest.Document, error) {
	switch {
	case strings.HasPrefix(source, "http://"):
		return nil, fmt.Errorf("%s: definitions are read over https only: write https://%s", source, strings.TrimPrefix(source, "http://"))
	case strings.HasPrefix(source, "https://"):
		text, err := r.get(ctx, source)
		if err != nil {
			return nil, err
		}
		return documents(source, text)
	case strings.HasPrefix(source, "git:"):
		return readGit(ctx, source)
	}
	in, err := r.Files.Read([]string{source}, r.Stdin)
	if err != nil {
		return nil, hint(source, err)
	}
	return in.Documents, nil
}

// hint adds to the error of a file what its name may stand for.
func hint(source string, err error) error {
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	revision, path, ok := strings.Cut(source, ":")
	switch {
	case ok && !strings.Contains(revision, "/") && path != "" && !strings.HasPrefix(path, "//"):
		return fmt.Errorf("%w; for a git revision, write git:%s", err, source)
	case strings.Contains(source, "%7B%7B") || strings.Contains(source, "{Group}"):
		return fmt.Errorf("%w; for a catalogue, write {{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json", err)
	case !strings.HasPrefix(source, ".") && strings.Contains(strings.SplitN(source, "/", 2)[0], ".") && strings.Contains(source, "/"):
		return fmt.Errorf("%w; for a URL, write https://%s", err, source)
	}
	return err
}

// documents splits a text from elsewhere, of which nothing may be lost.
func documents(name string, text []byte) ([]manifest.Document, error) {
	if t := bytes.TrimSpace(text); len(t) > 0 && t[0] == '<' {
		return nil, fmt.Errorf("%s: got HTML, want YAML or JSON: name the raw file, such as https://raw.githubusercontent.com/OWNER/REPOSITORY/REVISION/FILE", name)
	}
	docs := manifest.Split(name, text)
	if len(docs) == 0 {
		return nil, fmt.Errorf("%s: empty, want YAML or JSON with CustomResourceDefinitions", name)
	}
	for _, d := range docs {
		if d.Err != nil {
			return nil, d.Err
		}
	}
	return docs, nil
}

// errNotFound means that a server or folder does not have a file.
var errNotFound = errors.New("not found")

// get returns the body of a URL.
func (r *Reader) get(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%s: want a URL such as https://example.com/crds.yaml", address)
	}
	shown := u.Redacted()
	ctx, cancel := context.WithTimeout(ctx, MaxTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	req.Header.Set("Accept", "application/yaml, application/json, text/plain, */*")
	req.Header.Set("User-Agent", "keelson")
	client := http.Client{}
	if r.Client != nil {
		client = *r.Client
	}
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		switch {
		case next.URL.Scheme != "https":
			return fmt.Errorf("redirected to %s, which is not https", next.URL.Redacted())
		case len(via) >= 10:
			return errors.New("redirected more than 10 times")
		}
		return nil
	}
	resp, err := client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		if ctx.Err() == context.DeadlineExceeded {
			err = fmt.Errorf("no answer within %v", MaxTime)
		}
		return nil, fmt.Errorf("%s: %w; without a network, download the file and name it", shown, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w (404): check the path and the revision in the URL", shown, errNotFound)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: got status %s, want 200", shown, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxBytes+1))
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return nil, fmt.Errorf("%s: not complete within %v", shown, MaxTime)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", shown, err)
	case len(text) > MaxBytes:
		return nil, fmt.Errorf("%s: got more than %d bytes", shown, MaxBytes)
	}
	return text, nil
}
