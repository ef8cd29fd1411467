package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// This file installs the packages of a finished release in folders, and runs what they install: "make release-test".

// unprivileged is a user that nothing belongs to.
const unprivileged = 61184

// finished returns the only file of the finished release that a pattern matches. It skips the test
// without a release, and fails it for users other than root and on other platforms.
func finished(t *testing.T, pattern string) string {
	t.Helper()
	if *packages == "" {
		t.Skip("it needs a finished release: make release-test")
	}
	if os.Getuid() != 0 || runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		t.Fatalf("got user %d on %s/%s, want root on linux/amd64: the test installs packages, mounts file systems and changes the root folder",
			os.Getuid(), runtime.GOOS, runtime.GOARCH)
	}
	found, err := filepath.Glob(filepath.Join(*packages, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: got %q (%v), want one file", pattern, found, err)
	}
	return found[0]
}

// installArchive unpacks the archive and returns the program.
func installArchive(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	command(t, "tar", "-xzf", finished(t, "*_linux_amd64.tar.gz"), "-C", dir)
	binary, err := filepath.Glob(dir + "/*/keelson")
	if err != nil || len(binary) != 1 {
		t.Fatalf("got %q (%v), want one program", binary, err)
	}
	return binary[0]
}

// TestInstalledArchive runs the program as an unprivileged user in a root folder that has nothing else. The list of components has all of
// its modules.
func TestInstalledArchive(t *testing.T) {
	binary, root := installArchive(t), t.TempDir()
	text, err := os.ReadFile(finished(t, "*_sbom.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	checkSBOM(t, text, binary)
	if err := errors.Join(os.Rename(binary, filepath.Join(root, "keelson")), os.Chown(root, unprivileged, unprivileged)); err != nil {
		t.Fatal(err)
	}
	inRoot := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/keelson", args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}, Pdeathsig: syscall.SIGKILL}
		cmd.Dir, cmd.Env = "/", []string{}
		return cmd
	}
	for _, word := range []string{"version", "--version"} {
		if out, err := inRoot(word).CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "keelson v") {
			t.Errorf("keelson %s: got %s (%v), want a version", word, out, err)
		}
	}
	serves(t, inRoot("serve", "--data-dir", "/data", "--secure-port", "0"), filepath.Join(root, "data"))
}

// TestInstalledImage runs the image as its configuration says, in user, mount and process namespaces, with a root folder where only the
// volumes can be written.
func TestInstalledImage(t *testing.T) {
	image := imageOf(t, finished(t, "*_image.tar"))
	root := t.TempDir()
	unpackImage(t, image, root)
	size, err := imageSize(image)
	if err != nil || size > releaseLimits.image {
		t.Errorf("got %d bytes (%v), want at most %d", size, err, releaseLimits.image)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if len(c.Volumes) != 1 || c.User == "" {
		t.Fatalf("got user %q and volumes %v, want a user and one volume", c.User, c.Volumes)
	}
	script := "set -eu\nmount --bind \"$1\" \"$1\"\nmount -o remount,bind,ro \"$1\"\n"
	data := ""
	for volume := range c.Volumes {
		data = filepath.Join(root, volume)
		script += "mount --bind \"$1" + volume + "\" \"$1" + volume + "\"\nmount -o remount,bind,rw \"$1" + volume + "\"\n"
	}
	script += "if touch \"$1/probe\"; then echo 'the root folder can be written' >&2; exit 1; fi\n"
	script += "root=$1 user=$2\nshift 2\nexec chroot --userspec=\"$user\" --groups= \"$root\" \"$@\"\n"
	args := append([]string{"-c", script, "sh", root, c.User}, c.Entrypoint...)
	cmd := exec.Command("/bin/sh", slices.Concat(args, c.Cmd, []string{"--secure-port", "0"})...)
	cmd.Env = c.Env
	all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1 << 16}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, UidMappings: all, GidMappings: all,
		GidMappingsEnableSetgroups: true, Pdeathsig: syscall.SIGKILL,
	}
	serves(t, cmd, data)
	info, err := os.Stat(filepath.Join(data, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if got := fmt.Sprintf("%d:%d", owner.Uid, owner.Gid); got != c.User {
		t.Errorf("got files of %s, want those of %s", got, c.User)
	}
}

// imageOf returns the image for amd64 of an OCI archive.
func imageOf(t *testing.T, archive string) v1.Image {
	t.Helper()
	dir := t.TempDir()
	command(t, "tar", "-xf", archive, "-C", dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifest.Manifests {
		if m.Platform != nil && m.Platform.Architecture == "amd64" {
			image, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return image
		}
	}
	t.Fatalf("got %+v, want an image for amd64", manifest.Manifests)
	return nil
}

// unpackImage unpacks the layers of an image to a folder.
func unpackImage(t *testing.T, image v1.Image, root string) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		unpack := exec.Command("tar", "-x", "--numeric-owner", "-p", "-C", root)
		unpack.Stdin = content
		if out, err := unpack.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// TestInstalledAction runs the script of the GitHub Action with the finished release, on a repository without a mistake and on one with.
func TestInstalledAction(t *testing.T) {
	archive, err := filepath.Abs(finished(t, "*_linux_amd64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../deploy/action.sh")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Inputs map[string]struct{ Default string }
	}
	if err := yaml.Unmarshal(text, &action); err != nil {
		t.Fatal(err)
	}
	version := "v" + strings.Split(filepath.Base(archive), "_")[1]
	releases := t.TempDir()
	if err := os.Symlink(filepath.Dir(archive), filepath.Join(releases, version)); err != nil {
		t.Fatal(err)
	}
	for _, mistake := range []bool{false, true} {
		cmd := exec.Command("bash", script)
		cmd.Dir = checkedRepository(t, mistake)
		cmd.Env = append(os.Environ(), "KEELSON_RELEASES=file://"+releases, "KEELSON_VERSION="+version, "KEELSON_ARGS="+action.Inputs["args"].Default)
		if out, err := cmd.CombinedOutput(); (err != nil) != mistake || mistake && !strings.Contains(string(out), "::error") {
			t.Errorf("mistake %t: got %v\n%s", mistake, err, out)
		}
	}
}

// TestInstalledHooks runs the commands of the hooks for pre-commit with the finished program.
func TestInstalledHooks(t *testing.T) {
	binary := installArchive(t)
	for _, h := range hooks(t) {
		for _, mistake := range []bool{false, true} {
			words := strings.Fields(h.Entry)
			cmd := exec.Command(filepath.Join(filepath.Dir(binary), words[0]), words[1:]...)
			cmd.Dir = checkedRepository(t, mistake)
			if out, err := cmd.CombinedOutput(); (err != nil) != mistake {
				t.Errorf("%s, mistake %t: got %v\n%s", h.Entry, mistake, err, out)
			}
		}
	}
}

// command runs a command to its end and returns what it prints.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// serves starts a command that serves, waits until it says that it is ready, makes a CRD and an object of it, and ends it with SIGTERM.
// data is the server's data directory, as it is called outside.
func serves(t *testing.T, cmd *exec.Cmd, data string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	write.Close()
	read.SetReadDeadline(time.Now().Add(2 * time.Minute))
	var log bytes.Buffer
	for part := make([]byte, 4096); !bytes.Contains(log.Bytes(), []byte("ready")); {
		n, err := read.Read(part)
		log.Write(part[:n])
		if err != nil {
			t.Errorf("%s: got no server that is ready (%v):\n%s", cmd, err, log.String())
			break
		}
	}
	read.SetReadDeadline(time.Time{})
	go io.Copy(io.Discard, read)
	if !t.Failed() {
		usesCRD(t, filepath.Join(data, "admin.kubeconfig"))
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s, after SIGTERM: %v\n%s", cmd, err, log.String())
	}
}

// usesCRD makes a CRD on a server, an object that its schema takes, and one that it refuses.
func usesCRD(t *testing.T, kubeconfig string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Error(err)
		return
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(definition, "TYPE", "string")), &crd.Object); err != nil {
		t.Fatal(err)
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := client.Resource(crds).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		t.Errorf("the CRD: %v", err)
		return
	}
	object := func(name string, b any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "A", "metadata": map[string]any{"name": name}, "b": b}}
	}
	as := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "as"})
	_, err = as.Create(ctx, object("good", "text"), metav1.CreateOptions{})
	for ; apierrors.IsNotFound(err) && ctx.Err() == nil; _, err = as.Create(ctx, object("good", "text"), metav1.CreateOptions{}) {
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Errorf("an object: %v", err)
	}
	if got, err := as.Get(ctx, "good", metav1.GetOptions{}); err != nil || got.Object["b"] != "text" {
		t.Errorf("got %v (%v), want the object", got, err)
	}
	if _, err := as.Create(ctx, object("bad", int64(7)), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an object that is not valid: got %v, want a refusal", err)
	}
}
