package memory

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// This file finds out how much memory there is, and how much of it is resident.

// ParseLimit reads a limit: a quantity of bytes as Kubernetes writes them; 0 for none; "" for the default of this machine.
func ParseLimit(text string) (int64, error) {
	if text == "" {
		limit := available("/")
		if limit < Least {
			return 0, nil // the machine is not known, or too small to work in a part of it
		}
		return limit, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("got %q, want a quantity of bytes such as 512Mi, or 0 for no limit", text)
	}
	switch n, whole := q.AsInt64(); {
	case !whole:
		return 0, fmt.Errorf("got %s, want a whole number of bytes", text)
	case n == 0:
		return 0, nil
	case n < Least:
		return 0, fmt.Errorf("got %s, want at least %dMi, or 0 for no limit", text, Least>>20)
	default:
		return n, nil
	}
}

// available returns three quarters of the memory that the process may have: of the limit of its cgroups, or of the machine. The rest
// is for what the kernel counts beside it, such as buffers of sockets and of files. It is 0 if neither is known.
func available(root string) int64 {
	most := min(machine(root), cgroups(root))
	if most == math.MaxInt64 {
		return 0
	}
	return most / 4 * 3
}

// machine returns the memory of the machine, as proc(5) has it.
func machine(root string) int64 {
	text, err := os.ReadFile(path.Join(root, "proc/meminfo"))
	if err != nil {
		return math.MaxInt64
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" {
			if n, err := strconv.ParseInt(fields[1], 10, 53); err == nil && n > 0 {
				return n << 10
			}
		}
	}
	return math.MaxInt64
}

// cgroups returns the least limit of the cgroups of the process, of version 1 or 2 (cgroups(7)). A cgroup is bound by those around it.
func cgroups(root string) int64 {
	least := int64(math.MaxInt64)
	text, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return least
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) < 3 {
			continue
		}
		dir, file := "sys/fs/cgroup", "memory.max"
		if parts[1] != "" {
			dir, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		if parts[1] != "" && !strings.Contains(","+parts[1]+",", ",memory,") {
			continue
		}
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			// A container may see its own cgroup as the root. Then the files of its parents are missing.
			if text, err := os.ReadFile(path.Join(root, dir, at, file)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
					least = min(least, n)
				}
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// residentFiles returns how many bytes of files are resident, as statm of proc(5) has it; about those of the program where there is none.
func residentFiles() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return programFiles
	}
	fields := strings.Fields(string(text))
	if len(fields) < 3 {
		return programFiles
	}
	pages, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return programFiles
	}
	return pages * int64(os.Getpagesize())
}
