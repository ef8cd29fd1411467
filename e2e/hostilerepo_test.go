package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// This file checks repositories of strangers.

// gitSettings are settings of git that name a command; RUN stands for it. With most of them, some command of git runs it.
var gitSettings = []string{
	"[core]\n fsmonitor = RUN",
	"[core]\n fsmonitorHookVersion = 1\n fsmonitor = RUN",
	"[core]\n hooksPath = HOOKS",
	"[core]\n sshCommand = RUN",
	"[core]\n gitProxy = RUN",
	"[core]\n pager = RUN\n[pager]\n rev-parse = RUN\n cat-file = RUN\n ls-tree = RUN",
	"[core]\n editor = RUN\n[sequence]\n editor = RUN",
	"[core]\n askPass = RUN",
	"[core]\n alternateRefsCommand = RUN",
	"[core]\n attributesFile = deploy/attributes\n[filter \"x\"]\n smudge = RUN\n clean = RUN\n required = true",
	"[filter \"x\"]\n process = RUN\n required = true",
	"[filter \"lfs\"]\n process = RUN\n smudge = RUN\n required = true",
	"[diff]\n external = RUN",
	"[diff \"x\"]\n textconv = RUN\n command = RUN\n cachetextconv = true",
	"[merge \"x\"]\n driver = RUN",
	"[interactive]\n diffFilter = RUN",
	"[alias]\n rev-parse = !RUN\n cat-file = !RUN\n ls-tree = !RUN",
	"[credential]\n helper = !RUN",
	"[credential \"https://example.com\"]\n helper = !RUN",
	"[gpg]\n program = RUN",
	"[gpg \"ssh\"]\n program = RUN\n defaultKeyCommand = RUN",
	"[trailer \"x\"]\n command = RUN\n cmd = RUN",
	"[uploadpack]\n packObjectsHook = RUN",
	"[remote \"origin\"]\n url = .\n uploadpack = RUN\n promisor = true\n partialclonefilter = blob:none",
	"[remote \"origin\"]\n url = ext::RUN\n promisor = true\n[protocol \"ext\"]\n allow = always",
	"[remote \"origin\"]\n url = x@127.0.0.1:a\n promisor = true\n[core]\n sshCommand = RUN",
	"[remote \"origin\"]\n vcs = ext\n url = RUN\n promisor = true\n[protocol]\n allow = always",
	"[remote \"origin\"]\n url = https://127.0.0.1:1/a\n promisor = true\n[url \"ext::RUN https\"]\n insteadOf = https\n[protocol]\n allow = always",
	"[submodule \"x\"]\n update = !RUN\n url = ext::RUN\n active = true",
	"[include]\n path = COMMANDS",
	"[includeIf \"gitdir:/**\"]\n path = COMMANDS",
	"[extensions]\n worktreeConfig = true",
	"[browser \"x\"]\n cmd = RUN\n[man \"x\"]\n cmd = RUN\n[help]\n autocorrect = immediate",
}

// TestHostileRepositories checks files in repositories whose configuration names commands, and whose objects are missing, so that git
// would fetch them with one of the commands. None runs.
func TestHostileRepositories(t *testing.T) {
	t.Parallel()
	if len(gitSettings) < 30 {
		t.Fatalf("got %d settings, want at least 30", len(gitSettings))
	}
	for _, setting := range gitSettings {
		h := newHostileRepo(t, setting)
		h.loseObjects()
		h.check("validate", ".")
	}
	h := newHostileRepo(t, strings.Join(gitSettings, "\n"))
	for range 2 {
		h.embed("deploy/bare", false)
		h.embed("deploy/bare/unpacked", true)
		for _, dir := range []string{"deploy", "deploy/bare", "deploy/bare/unpacked", ".git"} {
			h.here = filepath.Join(h.root, dir)
			h.check("validate", ".")
			h.check("validate", "--crd", "git:main:crds/", ".")
			h.check("lint", "--old", "git:main:crds/", ".")
			h.check("lint", "--old", "git:HEAD:./", ".")
		}
		h.loseObjects()
	}
}

// hostileRepo is a repository with a definition and an object in its last commit.
type hostileRepo struct {
	t       *testing.T
	root    string
	here    string // where commands run
	ran     string // a file that its commands write
	setting string
	id      string // of the definition's content
}

func newHostileRepo(t *testing.T, setting string) hostileRepo {
	dir := t.TempDir()
	h := hostileRepo{t: t, root: filepath.Join(dir, "repo"), here: filepath.Join(dir, "repo", "deploy"), ran: filepath.Join(dir, "ran")}
	script := filepath.Join(dir, "run")
	h.write(script, "#!/bin/sh\ntouch "+h.ran+"\n")
	hooks := filepath.Join(dir, "hooks")
	for _, hook := range []string{"post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc", "fsmonitor-watchman"} {
		h.write(filepath.Join(hooks, hook), "#!/bin/sh\ntouch "+h.ran+"\n")
		h.write(filepath.Join(h.root, ".git", "hooks", hook), "#!/bin/sh\ntouch "+h.ran+"\n")
	}
	commands := filepath.Join(dir, "commands")
	fill := strings.NewReplacer("RUN", script, "HOOKS", hooks, "COMMANDS", commands)
	h.write(commands, fill.Replace("[core]\n fsmonitor = RUN\n sshCommand = RUN\n pager = RUN\n"))
	h.setting = "[core]\n repositoryformatversion = 1\n bare = false\n[extensions]\n partialClone = origin\n" + fill.Replace(setting) + "\n"

	h.write(filepath.Join(h.root, "crds", "w.yaml"), widgets)
	h.write(filepath.Join(h.root, "deploy", "w.yaml"), "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n")
	h.write(filepath.Join(h.root, "deploy", ".keelson.yaml"), "apiVersion: cli.keelson.io/v1\nkind: Configuration\ncrds: [\"git:main:crds/\"]\n")
	h.write(filepath.Join(h.root, ".gitattributes"), "*.yaml filter=x diff=x merge=x\n")
	h.git("init", "-q", "-b", "main", ".")
	h.git("add", "crds", "deploy/w.yaml", ".gitattributes")
	h.git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--no-verify", "-m", "a")
	out, err := exec.Command("git", "-C", h.root, "rev-parse", "main:crds/w.yaml").Output()
	if err != nil {
		t.Fatal(err)
	}
	h.id = strings.TrimSpace(string(out))
	h.write(filepath.Join(h.root, ".git", "config"), h.setting)
	h.write(filepath.Join(h.root, ".git", "config.worktree"), fill.Replace("[core]\n fsmonitor = RUN\n"))
	os.Remove(h.ran)
	return h
}

// widgets is a definition.
const widgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

func (h hostileRepo) write(file, text string) {
	h.t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o755)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h hostileRepo) git(args ...string) {
	h.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = h.root
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// loseObjects removes the files of the last commit from the store of objects.
func (h hostileRepo) loseObjects() {
	h.t.Helper()
	id := h.id
	if err := os.Remove(filepath.Join(h.root, ".git", "objects", id[:2], id[2:])); err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
}

// embed writes a folder that looks like a bare repository, or one with a .git folder of its own, as an archive can have.
func (h hostileRepo) embed(dir string, dotGit bool) {
	h.t.Helper()
	dir = filepath.Join(h.root, dir)
	data := dir
	if dotGit {
		data = filepath.Join(dir, ".git")
	}
	for _, folder := range []string{"objects", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(data, folder), 0o755); err != nil {
			h.t.Fatal(err)
		}
	}
	h.write(filepath.Join(data, "HEAD"), "ref: refs/heads/main\n")
	h.write(filepath.Join(data, "refs/heads/main"), strings.Repeat("1234567890", 4)+"\n")
	h.write(filepath.Join(data, "config"), strings.Replace(h.setting, "bare = false", fmt.Sprintf("bare = %v", !dotGit), 1))
	for _, file := range []string{".keelson.yaml", "w.yaml"} {
		text, err := os.ReadFile(filepath.Join(h.root, "deploy", file))
		if err != nil {
			h.t.Fatal(err)
		}
		h.write(filepath.Join(dir, file), string(text))
	}
}

// check runs a command. It may fail; nothing of the repository may run.
func (h hostileRepo) check(args ...string) {
	h.t.Helper()
	cmd := exec.Command(keelsonBin, args...)
	cmd.Dir = h.here
	out, _ := cmd.CombinedOutput()
	if _, err := os.Stat(h.ran); err == nil {
		h.t.Fatalf("keelson %v in %s: a command of the repository ran, by\n%s\n%s", args, h.here, h.setting, out)
	}
	if strings.Contains(string(out), "goroutine ") {
		h.t.Fatalf("keelson %v: %s", args, out)
	}
}

// TestGitRevisions reads definitions of a revision from work trees, folders below the root, and stores of other formats.
func TestGitRevisions(t *testing.T) {
	t.Parallel()
	check := func(dir, source string) {
		t.Helper()
		cmd := exec.Command(keelsonBin, "validate", "--crd", source, "w.yaml")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s, %s: %v\n%s", dir, source, err, out)
		}
	}
	for _, format := range [][]string{nil, {"--object-format=sha256"}, {"--ref-format=reftable"}} {
		h := newHostileRepo(t, "")
		os.RemoveAll(filepath.Join(h.root, ".git"))
		init := exec.Command("git", append([]string{"init", "-q", "-b", "main"}, format...)...)
		init.Dir = h.root
		if out, err := init.CombinedOutput(); err != nil {
			if format != nil {
				t.Logf("git init %v: %v, %s", format, err, out) // an older git
				continue
			}
			t.Fatalf("%v: %s", err, out)
		}
		h.git("add", ".")
		h.git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "a")
		h.git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "b")
		h.git("tag", "v1", "HEAD~1")
		check(h.here, "git:main:crds/")
		check(h.here, "git:main~1:crds/w.yaml")
		check(h.here, "git:v1:../crds/")
		h.git("gc", "-q")
		check(h.here, "git:v1:crds")
		tree := filepath.Join(t.TempDir(), "tree")
		h.git("worktree", "add", "-q", "-b", "other", tree, "main")
		check(filepath.Join(tree, "deploy"), "git:HEAD:crds/")
		check(filepath.Join(tree, "deploy"), "git:other:../crds/")
	}
}
