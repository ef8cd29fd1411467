package server

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pageOut asks the kernel to free the resident pages of a file that is mapped into the process.
// They are read from the file again when they are needed. MADV_PAGEOUT destroys nothing, also if
// something else is mapped at the address meanwhile.
func pageOut(file string) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) { // address-address flags offset device inode path
		fields := strings.Fields(line)
		if len(fields) != 6 || fields[5] != file {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		begin, err := strconv.ParseUint(from, 16, 64)
		if err != nil {
			continue
		}
		end, err := strconv.ParseUint(to, 16, 64)
		if err != nil {
			continue
		}
		// An older kernel does not know the advice, and keeps the pages until it needs the memory.
		unix.Syscall(unix.SYS_MADVISE, uintptr(begin), uintptr(end-begin), unix.MADV_PAGEOUT)
	}
}
