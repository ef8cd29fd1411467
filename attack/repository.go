package main

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	_ "modernc.org/sqlite"
)

// This file has what a stranger's repository may hold besides manifests and git's settings: databases, keys, paths of settings that lead
// out, and archives of git that are no files or become very large.

// hidden is a text of files outside of the repository. No command may print it.
const hidden = "text-outside-5c19d0"

// exported and exportedTable create the tables of an export, as keelson does.
var exported = []string{
	`CREATE TABLE keelson_kinds (
	api_group TEXT NOT NULL,
	kind TEXT NOT NULL,
	table_name TEXT NOT NULL UNIQUE,
	version TEXT NOT NULL DEFAULT '',
	complete BOOLEAN NOT NULL DEFAULT FALSE,
	resource_version TEXT NOT NULL DEFAULT '',
	source TEXT NOT NULL DEFAULT '',
	writer TEXT NOT NULL DEFAULT '',
	list_version TEXT NOT NULL DEFAULT '',
	list_token TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (api_group, kind)
)`,
	`CREATE TABLE keelson_seen (
	table_name TEXT NOT NULL,
	namespace TEXT NOT NULL,
	name TEXT NOT NULL,
	PRIMARY KEY (table_name, namespace, name)
) WITHOUT ROWID`,
}

const exportedTable = `CREATE TABLE "configmap" (
	namespace TEXT NOT NULL,
	name TEXT NOT NULL,
	uid TEXT NOT NULL,
	resource_version TEXT NOT NULL,
	labels TEXT NOT NULL,
	doc BLOB NOT NULL,
	PRIMARY KEY (namespace, name)
)`

// database writes a SQLite file with an export whose SQL does more, and returns a command for it.
func (s *stranger) database() (args []string) {
	file, other := filepath.Join(s.root, "deploy/objects.db"), filepath.Join(s.root, "../other.db")
	statements, table := slices.Clone(exported), exportedTable
	const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
	row := `INSERT INTO configmap VALUES ('n', 'a', '', '1', '{}', jsonb('` + object + `'))`
	name := "configmap"
	rng := s.rng
	expensive := pick(rng, "hex(zeroblob(450000000))", "hex(randomblob(300000000))", "printf('%.*c', 900000000, 'x')", "writefile('"+s.ran+"', 'a')", "load_extension('"+s.run+"')", "readfile('"+other+"')")
	endless := "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT 'n' AS namespace, x || " + expensive + " AS name, '' AS uid, '' AS resource_version, '{}' AS labels, '" + object + "' AS doc FROM c"
	switch rng.IntN(8) {
	case 0:
		name = `configmap"; ATTACH '` + s.ran + `' AS p; CREATE TABLE p.x(a); SELECT '' FROM "configmap`
		statements = append(statements, table, row)
	case 1:
		name = `configmap"; ATTACH '` + other + `' AS p; SELECT namespace, name, doc FROM p."secret`
		statements = append(statements, table, row)
	case 2:
		statements = append(statements, "CREATE VIEW configmap AS "+endless)
	case 3:
		statements = append(statements, strings.Replace(table, "doc BLOB NOT NULL", "doc BLOB AS ("+pick(rng, "hex(zeroblob(450000000))", "printf('%.*c', 900000000, 'x')")+")", 1))
	case 4:
		statements = append(statements, table, row, "CREATE TRIGGER t AFTER UPDATE ON configmap BEGIN INSERT INTO keelson_seen SELECT name, name, name FROM ("+endless+"); END",
			"CREATE TRIGGER u AFTER INSERT ON configmap BEGIN INSERT INTO keelson_seen SELECT name, name, name FROM ("+endless+"); END")
	case 5:
		statements = append(statements, table, row, "CREATE INDEX i ON configmap (json_extract(doc, '$.a')) WHERE length("+pick(rng, "hex(zeroblob(450000000))", "printf('%.*c', 900000000, 'x')")+") > 1")
	case 6:
		statements = append(statements, "CREATE VIRTUAL TABLE configmap USING fts5(namespace, name, uid, resource_version, labels, doc)")
	default:
		statements = append(statements, table, row, "UPDATE configmap SET doc = jsonb('"+strings.Repeat(`{"a":`, 900)+"1"+strings.Repeat("}", 900)+"')")
	}
	run := func(file string, statements []string, args ...any) {
		db, err := sql.Open("sqlite", file)
		if err != nil {
			return
		}
		defer db.Close()
		for _, statement := range statements {
			db.Exec(statement, args...) // some are refused by this driver
		}
	}
	run(other, []string{"CREATE TABLE secret (namespace, name, doc)", "INSERT INTO secret VALUES ('a', 'b', '{\"a\":\"" + hidden + "\"}')"})
	run(file, statements)
	run(file, []string{"INSERT INTO keelson_kinds (api_group, kind, table_name, complete) VALUES ('', 'ConfigMap', ?, 1)"}, name)
	if chance(rng, 10) { // pages that are not what they say
		s.scramble(file)
	}
	if chance(rng, 3) {
		s.write("deploy/one.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: n}\ndata: {a: b}\n")
		return []string{"export", "--to", "sqlite://objects.db", "one.yaml"}
	}
	return append([]string{"query", pick(rng, "true", "self.metadata.name == 'a'", "self.x.exists(k, k == 'a') || self.metadata.name.matches('a')"), "--db", "sqlite://objects.db"},
		pick(rng, nil, []string{"--count"}, []string{"-o", "json"})...)
}

// scramble changes bytes of a file.
func (s *stranger) scramble(file string) {
	text, err := os.ReadFile(file)
	if err != nil || len(text) < 200 {
		return
	}
	for range 1 + s.rng.IntN(30) {
		text[100+s.rng.IntN(len(text)-100)] = byte(s.rng.Uint32())
	}
	os.WriteFile(file, text, 0o644)
}

// longKeys writes Secrets, kubeconfigs and key sets with long keys, and returns a command for them.
func (s *stranger) longKeys() (args []string) {
	key := longKey(s.rng, pick(s.rng, 3000, 20_000, 200_000))
	lines := "    " + strings.ReplaceAll(strings.TrimSpace(key), "\n", "\n    ")
	s.write("deploy/secret.yaml", "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: a}\nstringData:\n  tls.crt: x\n  tls.key: |\n"+lines+"\n")
	s.write("deploy/request.yaml", "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {name: a}\nspec:\n  signerName: a.b/c\n  usages: [client auth]\n  request: "+longRequest(key)+"\n")
	return append([]string{"validate"}, pick(s.rng, "secret.yaml", "request.yaml", "."))
}

// leadingOut writes settings whose paths lead out of the repository, or to what never answers, and returns a command for them.
func (s *stranger) leadingOut() (args []string) {
	rng := s.rng
	s.write("../outside/deep/x", "")
	s.write("../outside/secret.yaml", hidden+": [\n")
	os.Symlink(filepath.Join(s.root, "../outside/deep"), filepath.Join(s.root, "deploy/link"))
	os.Symlink("../../outside/secret.yaml", filepath.Join(s.root, "deploy/file"))
	syscall.Mkfifo(filepath.Join(s.root, "deploy/fifo"), 0o644)
	os.Symlink(pick(rng, "/proc/kmsg", "/dev/zero", "/proc/self/fd/0", "/dev/tty", "fifo"), filepath.Join(s.root, "deploy/z.yaml"))
	path := pick(rng, "link/../secret.yaml", "/proc/self/cwd/link/../secret.yaml", s.root+"/deploy/link/../secret.yaml", "/proc/self/cwd/link/../{{.ResourceKind}}.yaml", "file", "fifo", "z.yaml",
		"/proc/self/root"+s.root+"/../outside/secret.yaml", "./link/./../secret.yaml", "link//..//secret.yaml")
	setting := pick(rng, "crds: [%q]", "baseline: %q", "policies: [%q]", "crds: [\"link/../%s\"]", "exclude: [%q]")
	s.write("deploy/.keelson.yaml", "apiVersion: cli.keelson.io/v1\nkind: Configuration\n"+fmt.Sprintf(setting, path)+"\n")
	s.write("deploy/o.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	return []string{"validate", pick(rng, "o.yaml", ".")}
}

// archive writes a .git as an archive may hold it, and returns a command that reads revisions of it.
func (s *stranger) archive() (args []string) {
	rng := s.rng
	git := filepath.Join(s.root, ".git")
	s.write(".git/config", "[core]\n repositoryformatversion = 0\n")
	s.write(".git/HEAD", "ref: refs/heads/main\n")
	s.write(".git/objects/info/packs", "")
	s.write(".git/refs/heads/main", strings.Repeat("1234567890", 4)+"\n")
	switch rng.IntN(5) {
	case 0, 1:
		name := filepath.Join(git, pick(rng, "commondir", "HEAD", "config", "packed-refs", "refs/heads/x", "shallow", "objects/info/alternates"))
		os.Remove(name)
		syscall.Mkfifo(name, 0o644)
	case 2: // links to one file, which an archive holds once
		first := filepath.Join(git, "refs/heads/a0")
		if f, err := os.Create(first); err == nil {
			f.Truncate(62 << 20)
			f.Close()
		}
		for i := range 40 {
			os.Link(first, filepath.Join(git, fmt.Sprint("refs/heads/a", i+1)))
		}
	case 3:
		name := filepath.Join(git, pick(rng, "commondir", "packed-refs", "refs/heads/x", "objects"))
		os.RemoveAll(name)
		os.Symlink(pick(rng, "/proc/kmsg", "/dev/zero", "..", "/etc", "../../outside"), name)
	default:
		s.write(".git/commondir", pick(rng, "/", "/proc/self/root", "../../..", strings.Repeat("../", 5000), "."))
	}
	s.write("deploy/.keelson.yaml", "apiVersion: cli.keelson.io/v1\nkind: Configuration\ncrds: ['git:HEAD:crds/']\n")
	s.write("deploy/o.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	return []string{"validate", "o.yaml"}
}

// sizeOf returns the bytes of the files in a folder.
func sizeOf(dir string) (size int64) {
	filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil {
			return nil // it is gone already
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}
