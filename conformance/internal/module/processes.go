package module

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// EndAll ends the programs of a folder that still run: some of upstream's tests leave theirs behind. It knows them where the system
// lists processes as files.
func EndAll(folder string) error {
	lines, failed := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		text, err := os.ReadFile(line)
		if err != nil || !strings.HasPrefix(string(text), folder+string(filepath.Separator)) {
			continue // gone, or somebody else's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(line)))
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if p, err := os.FindProcess(pid); err == nil {
			p.Kill()
		}
	}
	return failed
}
