package crdsource

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/internal/manifest"
)

// This file reads files of a git revision, with the git command. The repository may be a stranger's, and git's configuration can name
// commands, which many of git's commands run. So git never sees the repository: see repository.

// readGit returns the documents in a file or folder of a revision. The path counts from the root of
// the repository, as in git show REVISION:PATH, or from the working directory if it begins with ./.
func readGit(ctx context.Context, source string) ([]manifest.Document, error) {
	revision, name, ok := strings.Cut(strings.TrimPrefix(source, "git:"), ":")
	if !ok || revision == "" || strings.HasPrefix(revision, "-") {
		return nil, fmt.Errorf("%s: want git:REVISION:PATH, such as git:main:crds/", source)
	}
	if strings.Contains(revision, "@{") {
		return nil, fmt.Errorf("%s: want a branch, tag or commit, or one before it such as main~2; logs of branches and their upstreams are not read", source)
	}
	ctx, cancel := context.WithTimeout(ctx, MaxTime)
	defer cancel()
	fail := func(err error) ([]manifest.Document, error) { return nil, fmt.Errorf("%s: %w", source, err) }
	r, err := openRepository(ctx)
	if err != nil {
		return fail(err)
	}
	defer r.close()
	written := name
	if name, err = r.fromRoot(name); err != nil {
		return fail(err)
	}

	object, err := r.git(ctx, nil, 1<<10, "rev-parse", "--verify", "--end-of-options", revision+":"+name)
	if err != nil {
		if _, bad := r.git(ctx, nil, 1<<10, "rev-parse", "--verify", "--end-of-options", revision+"^{commit}"); bad != nil {
			return fail(fmt.Errorf("%w; list revisions with git branch -a, and fetch them in a shallow clone (actions/checkout: fetch-depth: 0)", bad))
		}
		return fail(fmt.Errorf("the revision %s has no %s; list its files with git ls-tree -r --name-only %s", revision, written, revision))
	}
	id := strings.TrimSpace(string(object))
	kind, err := r.git(ctx, nil, 1<<10, "cat-file", "-t", id)
	if err != nil {
		return fail(err)
	}
	blobs := []blob{{name, id}}
	if strings.TrimSpace(string(kind)) == "tree" {
		if blobs, err = r.listTree(ctx, id, name); err != nil {
			return fail(err)
		}
		if len(blobs) == 0 {
			return fail(errors.New("no .yaml, .yml or .json file below it"))
		}
	}
	return r.readBlobs(ctx, revision, blobs)
}

// blob is a file of a revision.
type blob struct{ path, id string }

// listTree returns the manifests below a folder.
func (r *repository) listTree(ctx context.Context, id, folder string) ([]blob, error) {
	list, err := r.git(ctx, nil, MaxBytes, "ls-tree", "-r", "-z", id)
	if err != nil {
		return nil, err
	}
	var out []blob
	for line := range strings.SplitSeq(string(list), "\x00") {
		info, name, ok := strings.Cut(line, "\t")
		fields := strings.Fields(info)
		// Links (mode 120000) are followed by nobody here.
		if !ok || len(fields) != 3 || fields[1] != "blob" || !strings.HasPrefix(fields[0], "100") {
			continue
		}
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
			continue
		}
		if len(out) >= manifest.MaxFiles {
			return nil, fmt.Errorf("more than %d files: name a smaller folder", manifest.MaxFiles)
		}
		out = append(out, blob{path.Join(folder, name), fields[2]})
	}
	return out, nil
}

// readBlobs returns the documents of files.
func (r *repository) readBlobs(ctx context.Context, revision string, blobs []blob) ([]manifest.Document, error) {
	var ids bytes.Buffer
	for _, b := range blobs {
		ids.WriteString(b.id + "\n")
	}
	text, err := r.git(ctx, &ids, MaxBytes, "cat-file", "--batch")
	if err != nil {
		return nil, fmt.Errorf("git:%s: %w", revision, err)
	}
	in := bufio.NewReader(bytes.NewReader(text))
	var out []manifest.Document
	for _, b := range blobs {
		head, err := in.ReadString('\n')
		fields := strings.Fields(head)
		if err != nil || len(fields) != 3 {
			return nil, fmt.Errorf("git:%s:%s: git cat-file answered %q", revision, b.path, head)
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil || size < 0 || size > MaxBytes {
			return nil, fmt.Errorf("git:%s:%s: git cat-file answered %q", revision, b.path, head)
		}
		content := make([]byte, size+1) // a line break follows
		if _, err := io.ReadFull(in, content); err != nil {
			return nil, fmt.Errorf("git:%s:%s: %w", revision, b.path, err)
		}
		out = append(out, manifest.Split("git:"+revision+":"+b.path, content[:size])...)
	}
	return out, nil
}

// git runs a git command and returns its output of at most limit bytes.
func (r *repository) git(ctx context.Context, in io.Reader, limit int64, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = r.dir, r.env()
	cmd.Stdin = in
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("the command git is not in PATH: install it, or name files")
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(out, limit+1))
	if int64(len(text)) > limit {
		cmd.Process.Kill() // it may write forever
		cmd.Wait()
		return nil, fmt.Errorf("git %s: got more than %d bytes", args[0], limit)
	}
	if waited := cmd.Wait(); err == nil {
		err = waited
	}
	if err != nil {
		line, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(said.String()), "fatal: "), "\n")
		if line == "" {
			line = err.Error()
		}
		return nil, fmt.Errorf("git %s: %s", args[0], line)
	}
	return text, nil
}
