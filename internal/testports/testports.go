// Package testports finds free ports for servers in tests and measurements.
package testports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports that Free returns are below those that systems assign to clients (32768 and above on
// Linux, 49152 and above elsewhere). So no connection takes one before the server listens on it.
const (
	firstPort = 20000
	ports     = 12000
)

// claims holds the UDP socket of each port that Free returned. The sockets are closed when the
// process ends.
var claims struct {
	mu      sync.Mutex
	sockets []net.PacketConn
}

// Free returns n loopback ports on which no process listens. They belong to this process until it
// ends: a UDP socket of the same number on loopback keeps other processes that call Free away.
func Free(n int) ([]int, error) {
	var free []int
	for _, i := range rand.Perm(ports) {
		if len(free) == n {
			return free, nil
		}
		if port := firstPort + i; claim(port) {
			free = append(free, port)
		}
	}
	return nil, errors.New("no free port is left")
}

// claim reports whether a port was free, and is now this process's.
func claim(port int) bool {
	address := fmt.Sprintf("127.0.0.1:%d", port)
	// The UDP socket comes first: of two processes that try a port at the same time, one gets it.
	socket, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		socket.Close() // for the next process that asks, when the listener may have ended
		return false
	}
	l.Close()
	claims.mu.Lock()
	defer claims.mu.Unlock()
	claims.sockets = append(claims.sockets, socket)
	return true
}
