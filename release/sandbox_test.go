package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// This file runs the service of the deb package in the sandbox that its unit describes, as far as util-linux can make it.

// sandbox has the options of the unit that the test sets. Mounts are commands that prepare the root folder "$new", which has the installed
// files before those of this machine. Flags are those of setpriv. The probe succeeds inside if the option is in force. If there is a command
// to try, and it fails, this machine does not let root set the option.
var sandbox = []struct{ option, try, mount, flag, probe string }{
	{option: "ProtectSystem=strict", mount: `mount -o remount,ro "$new"`, probe: `grep -q "^overlay / overlay ro" /proc/self/mounts`},
	{option: "StateDirectory=keelson", mount: `mount --bind "$state" "$new/var/lib/keelson"`, probe: `touch /var/lib/keelson/probe && rm /var/lib/keelson/probe`},
	{option: "StateDirectoryMode=0700", mount: `chmod 0700 "$state"`, probe: `test "$(stat -c %a /var/lib/keelson)" = 700`},
	{option: "PrivateTmp=yes", mount: `mount -t tmpfs -o mode=1777 tmpfs "$new/tmp"`, probe: `test -z "$(ls /tmp)" && touch /tmp/probe && rm /tmp/probe`},
	{option: "PrivateDevices=yes", mount: `mount -t tmpfs -o mode=755 tmpfs "$new/dev"
for d in null zero full random urandom; do touch "$new/dev/$d"; mount --bind "/dev/$d" "$new/dev/$d"; done
mount -o remount,ro "$new/dev"`, probe: `test "$(ls /dev | wc -l)" = 5`},
	{option: "ProtectHome=yes", mount: `for d in home root; do mount -t tmpfs -o ro,mode=000 tmpfs "$new/$d"; done`, probe: `! ls /root && ! ls /home`},
	{option: "ProtectKernelTunables=yes", mount: `mount --bind /proc "$new/proc"; mount -o remount,bind,ro "$new/proc"`, probe: `grep -q "^proc /proc proc ro" /proc/self/mounts`},
	{option: "ProtectControlGroups=yes", mount: `mount --bind /sys "$new/sys"; mount -o remount,bind,ro "$new/sys"`, probe: `grep -q "^sysfs /sys sysfs ro" /proc/self/mounts && test -z "$(ls /sys/fs/cgroup)"`},
	{option: "LimitNOFILE=65536", try: `ulimit -n 65536`, mount: `ulimit -n 65536`, probe: `test "$(ulimit -n)" = 65536`},
	{option: "DynamicUser=yes", mount: `chown 61184:61184 "$state"`, flag: "--reuid=61184 --regid=61184 --clear-groups", probe: `test "$(id -u) $(id -G)" = "61184 61184"`},
	{option: "CapabilityBoundingSet=", flag: "--bounding-set=-all --inh-caps=-all", probe: `test "$(grep -c "^Cap.*:.0000000000000000$" /proc/self/status)" = 5`},
	{option: "NoNewPrivileges=yes", flag: "--no-new-privs", probe: `grep -q "^NoNewPrivs:.1$" /proc/self/status`},
}

// notSet has the options of the unit that the test does not set, with the reason.
var notSet = map[string]string{
	"LockPersonality":         "it is a filter for system calls",
	"MemoryDenyWriteExecute":  "it is a filter for system calls",
	"RestrictAddressFamilies": "it is a filter for system calls",
	"RestrictNamespaces":      "it is a filter for system calls",
	"RestrictRealtime":        "it is a filter for system calls",
	"SystemCallArchitectures": "it is a filter for system calls",
	"ProtectClock":            "it is a filter for system calls; the capability is dropped, and the devices are hidden",
	"ProtectHostname":         "it is a filter for system calls; the capability is dropped",
	"ProtectKernelLogs":       "it is a filter for system calls; the capability is dropped, and /dev/kmsg is hidden",
	"ProtectKernelModules":    "it is a filter for system calls; the capability is dropped",
	"Restart":                 "the service manager does it",
	"RestartSec":              "the service manager does it",
	"TimeoutStopSec":          "the service manager does it",
}

// TestInstalledDeb installs the deb package with dpkg in a folder, and runs the service with the options of its unit. Systemd is not needed.
func TestInstalledDeb(t *testing.T) {
	archive := finished(t, "*_amd64.deb")
	dir := t.TempDir()
	for _, sub := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/keelson"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	command(t, "dpkg", "--root="+dir, "--install", archive)
	for _, name := range []string{"usr/share/man/man1/keelson.1", "usr/share/bash-completion/completions/keelson", "usr/share/doc/keelson/copyright"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	options := serviceOptions(t, filepath.Join(dir, "usr/lib/systemd/system/keelson.service"))
	line := strings.Fields(options["ExecStart"])
	if options["KillSignal"] != "SIGTERM" || len(line) == 0 {
		t.Fatalf("got %v, want a command, and SIGTERM to end it", options)
	}
	delete(options, "ExecStart")
	delete(options, "KillSignal")
	enter, probes := sandboxOf(t, options)
	state := t.TempDir()
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command("unshare", slices.Concat([]string{"--mount", "--propagation", "private", "sh", "-c", enter, "sh", dir, state, t.TempDir()}, args)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	for option, probe := range probes {
		if out, err := inside("/bin/sh", "-c", probe).CombinedOutput(); err != nil {
			t.Errorf("%s is not in force: %s: %v\n%s", option, probe, err, out)
		}
	}
	serves(t, inside(append(line, "--secure-port", "0")...), state)
}

// serviceOptions returns the options of the service in a unit.
func serviceOptions(t *testing.T, unit string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "[Service]\n")
	section, _, _ = strings.Cut(section, "\n[")
	options := map[string]string{}
	for line := range strings.Lines(section) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			options[name] = value
		}
	}
	return options
}

// sandboxOf returns a script that runs a command with the options, and commands that succeed there if they are in force. The arguments of
// the script are the folder with the installed files, that of the state, an empty one, and the command.
func sandboxOf(t *testing.T, options map[string]string) (enter string, probes map[string]string) {
	t.Helper()
	options, probes = maps.Clone(options), map[string]string{}
	// An overlay must not have its own place below it: so it is on a file system of its own.
	mounts := []string{"set -eu", `installed=$1 state=$2 new=$3/root`, `mount -t tmpfs -o mode=755 tmpfs "$3"`, "shift 3",
		`cp -a "$installed" "$new.installed"`, `mkdir "$new" "$new.upper" "$new.work"`,
		`mount -t overlay -o "lowerdir=$new.installed:/,upperdir=$new.upper,workdir=$new.work" overlay "$new"`}
	var flags []string
	for _, o := range sandbox {
		name, value, _ := strings.Cut(o.option, "=")
		got, ok := options[name]
		if ok && got != value {
			t.Errorf("%s: got %q, want %q, which is what the test can set", name, got, value)
		}
		if !ok {
			continue
		}
		delete(options, name)
		if o.try != "" {
			if out, err := exec.Command("/bin/sh", "-c", o.try).CombinedOutput(); err != nil {
				t.Logf("not set: %s: this machine does not allow it: %s", o.option, out)
				continue
			}
		}
		t.Logf("set: %s", o.option)
		probes[o.option] = o.probe
		mounts = append(mounts, o.mount)
		flags = append(flags, o.flag)
	}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		reason, ok := notSet[name]
		if !ok {
			t.Errorf("%s=%s: got an option that the test does not know", name, options[name])
		}
		t.Logf("not set: %s=%s: %s", name, options[name], reason)
	}
	mounts = append(mounts, `exec chroot "$new" setpriv `+strings.Join(flags, " ")+` "$@"`)
	return strings.Join(mounts, "\n"), probes
}
