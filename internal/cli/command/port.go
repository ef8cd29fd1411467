// This file finds free ports.

package command

import (
	"net"
	"strconv"
)

// portsTried is how many ports after a taken one FreePort tries.
const portsTried = 100

// FreePort returns the first port after a taken one that is free now at an address. found is false
// if none of the next 100 ports is free.
func FreePort(address string, taken int) (port int, found bool) {
	for next := taken + 1; next <= min(taken+portsTried, 65535); next++ {
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(next)))
		if err == nil {
			l.Close()
			return next, true
		}
	}
	return 0, false
}
