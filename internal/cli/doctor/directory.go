package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/keelson-io/keelson/internal/datadir"
	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/internal/store/format"
	"github.com/keelson-io/keelson/server"
)

// This file checks the data directory: whether a server can use it, and who else can.

// checkDir checks that the data directory is there, or can be made, and that this user can write in
// it.
func (d *doctor) checkDir(context.Context) finding {
	info, err := os.Stat(d.dataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.checkParent()
	case err != nil:
		return finding{Status: problem, Found: err.Error(), Advice: "Name another directory with --data-dir, or run the command as the user who runs the server."}
	case !info.IsDir():
		return finding{Status: problem, Found: d.dataDir + " is not a directory", Advice: "Name another one with --data-dir."}
	}
	found := d.dataDir
	if hasModes {
		found += fmt.Sprintf(": mode %04o", info.Mode().Perm())
	}
	uid, known := ownerOf(info)
	if known {
		found += fmt.Sprintf(", owner: user %d", uid)
	}
	if err := checkWritable(d.dataDir); err != nil {
		return finding{Status: problem, Found: fmt.Sprintf("%s; this user, %d, cannot write in it: %v", found, os.Getuid(), errors.Unwrap(err)),
			Advice: fmt.Sprintf("Run the command and the server as the owner, or make this user the owner: chown -R %d %s. If the file system is read-only, mount it for writing.", os.Getuid(), d.dataDir)}
	}
	if known && uid != os.Geteuid() && os.Geteuid() == 0 {
		return finding{Status: warning, Found: found + "; this user is root",
			Advice: "If the server runs as the owner, run the command as the owner, too: root can read and write what the server cannot. Do not run a server as root here: the owner cannot read what it writes."}
	}
	return finding{Status: ok, Found: found}
}

// checkParent checks that a missing data directory can be made.
func (d *doctor) checkParent() finding {
	if isThere(d.dataDir) {
		return finding{Status: problem, Found: d.dataDir + " is a link to a directory that is missing", Advice: "Mount the volume that it leads to, or remove the link."}
	}
	parent := existing(d.dataDir)
	info, err := os.Stat(parent)
	if err == nil && !info.IsDir() {
		return finding{Status: problem, Found: fmt.Sprintf("%s is missing, and %s is not a directory", d.dataDir, parent), Advice: "Name another directory with --data-dir."}
	}
	if err == nil {
		err = checkWritable(parent)
	}
	if err != nil {
		return finding{Status: problem, Found: fmt.Sprintf("%s is missing, and this user, %d, cannot make it: %v", d.dataDir, os.Getuid(), err),
			Advice: fmt.Sprintf("Make it as root: install -d -m 0700 -o %d %s", os.Getuid(), d.dataDir)}
	}
	return finding{Status: ok, Found: d.dataDir + " does not exist yet: keelson serve creates it"}
}

// existing returns the nearest parent of a path that exists, or the path itself if it does.
func existing(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	for {
		parent := filepath.Dir(path)
		if _, err := os.Stat(path); err == nil || parent == path {
			return path
		}
		path = parent
	}
}

// lockState says whether a server uses the data directory.
type lockState struct {
	held bool
	err  error // it is not known
}

// readLock reads the state of the lock.
func (d *doctor) readLock(context.Context) lockState {
	held, err := datadir.IsLocked(d.dataDir)
	return lockState{held, err}
}

// finding returns what the state means.
func (l lockState) finding() finding {
	switch {
	case errors.Is(l.err, errors.ErrUnsupported):
		return finding{Status: ok, Found: "not checked on " + runtime.GOOS}
	case l.err != nil:
		return finding{Status: warning, Found: "it is unknown whether a server is running: " + l.err.Error(), Advice: "Run the command as the user who runs the server."}
	case l.held:
		return finding{Status: ok, Found: "a server is running in this directory; a second one needs a directory of its own"}
	}
	return finding{Status: ok, Found: "no server is running in this directory"}
}

// exposure is a file or folder with the permissions that other users must not have.
type exposure struct {
	path   string
	bits   fs.FileMode
	status string // of the finding if they have one
	what   string // they can do
}

// exposures returns the files and folders to check.
func (d *doctor) exposures() []exposure {
	pki := datadir.PKI(d.dataDir)
	list := []exposure{
		{d.dataDir, 0o002, problem, "replace the files in it"},
		{pki, 0o005, warning, "look into it"},
		{datadir.Etcd(d.dataDir), 0o005, warning, "look into it"},
		{filepath.Join(d.dataDir, server.KubeconfigFile), 0o006, problem, "get all permissions with it"},
	}
	for _, file := range append(filesNamed(pki, "", ".key"), filesNamed(pki, "", datadir.Next)...) {
		list = append(list, exposure{file, 0o006, problem, "use or replace the key"})
	}
	for _, file := range []string{d.tlsKeyFile, d.etcdKeyFile} {
		if file != "" {
			list = append(list, exposure{file, 0o006, warning, "use or replace the key"})
		}
	}
	return list
}

// checkPermissions checks that users other than the owner and its group can neither read nor
// replace secrets. A container may need the access of the group for the files of a volume.
func (d *doctor) checkPermissions(context.Context) finding {
	if !hasModes {
		return finding{Status: ok, Found: "not checked on " + runtime.GOOS}
	}
	f := finding{Status: ok}
	var found, advice []string
	looked := 0
	for _, e := range d.exposures() {
		info, err := os.Stat(e.path)
		if err != nil {
			continue // the checks of the directory and the certificates report it
		}
		looked++
		mode := info.Mode()
		if mode.Perm()&e.bits == 0 || mode&fs.ModeSticky != 0 {
			continue
		}
		if f.Status != problem {
			f.Status = e.status
		}
		found = append(found, fmt.Sprintf("%s has mode %04o: other users can %s", e.path, mode.Perm(), e.what))
		change := "o-rwx"
		if e.bits == 0o002 {
			change = "o-w"
		}
		advice = append(advice, "chmod "+change+" "+e.path)
	}
	f.Found, f.Advice = strings.Join(found, "; "), strings.Join(advice, "; ")
	switch {
	case looked == 0:
		f.Found = "there are no secrets yet"
	case f.Status == ok:
		f.Found = "other users can neither read nor replace secrets"
	}
	return f
}

// filesNamed returns the files in a folder whose names begin and end in this way, none if the
// folder cannot be read.
func filesNamed(folder, prefix, suffix string) []string {
	entries, _ := os.ReadDir(folder) // the check of the directory reports it
	var files []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	return files
}

// isThere reports whether there is a file or folder, or a link.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// checkFormat checks that this build can read the data directory.
func (d *doctor) checkFormat(context.Context) finding {
	dir := &format.Dir{Path: d.dataDir, Own: format.Directory, Release: server.Version().Program}
	err := dir.Check()
	var newer *format.NewerError
	switch {
	case errors.As(err, &newer):
		return finding{Status: problem, Found: fmt.Sprintf("format %d, this build reads up to %d", newer.Record.Format, newer.Own), Advice: err.Error()}
	case errors.Is(err, fs.ErrPermission):
		return finding{Status: problem, Found: err.Error(), Advice: "Run the command and the server as the user who owns the file."}
	case err != nil:
		return finding{Status: problem, Found: "the record of the format is not readable", Advice: err.Error()}
	}
	record, err := dir.Read()
	if err != nil {
		return finding{Status: problem, Found: err.Error(), Advice: "Run the command again."} // it could be read just now
	}
	if stored, err := etcd.Exists(datadir.Etcd(d.dataDir)); err == nil && !stored {
		return finding{Status: ok, Found: fmt.Sprintf("the first start writes format %d", format.Directory)}
	}
	if record.Format < format.Directory {
		return finding{Status: ok, Found: fmt.Sprintf("format %d; the next start saves a snapshot and upgrades it to %d", record.Format, format.Directory)}
	}
	return finding{Status: ok, Found: fmt.Sprintf("format %d, this build reads up to %d", record.Format, format.Directory)}
}

// checkStore checks that the embedded store is complete, and looks for leftovers of an interrupted
// start, upgrade or restore.
func (d *doctor) checkStore(running bool) finding {
	dir, pki := datadir.Etcd(d.dataDir), datadir.PKI(d.dataDir)
	exists, err := etcd.Exists(dir)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return finding{Status: problem, Found: err.Error(), Advice: "Run the command and the server as the user who owns the directory."}
	case err != nil:
		return finding{Status: problem, Found: "the store is not complete", Advice: err.Error()}
	case running:
		return finding{Status: ok, Found: "the running server uses it"}
	}
	if entries, err := os.ReadDir(pki); !exists && err == nil && len(entries) > 0 {
		return finding{Status: problem, Found: fmt.Sprintf("%s has certificates of a server, and its store %s is missing", pki, filepath.Join(dir, "member")),
			Advice: fmt.Sprintf("Mount the volume with the store, or run keelson snapshot restore --data-dir %s FILE. To begin with an empty store, move %s away for the first start.", d.dataDir, pki)}
	}
	left := append(filesNamed(dir, "first-start", ""), filesNamed(d.dataDir, format.File, ".part")...)
	left = append(left, filesNamed(pki, "", datadir.Next)...)
	if len(left) > 0 {
		return finding{Status: warning, Found: "a start was interrupted and left " + strings.Join(left, ", "), Advice: "Start the server: it completes the work and removes the rest."}
	}
	if part := dir + ".part"; exists && isThere(part) {
		return finding{Status: warning, Found: "a restore was interrupted and left " + part, Advice: "The store itself is complete. Remove the rest: rm -r " + part}
	}
	if !exists {
		return finding{Status: ok, Found: "there is no store yet: keelson serve creates it"}
	}
	return finding{Status: ok, Found: filepath.Join(dir, "member") + " is there, without leftovers of an interrupted start or restore"}
}
