// Package testports finds ports for servers that tests and measurements start.
package testports

import "net"

// Free asks the system for n loopback ports that nobody listens on. Somebody else may get one of them before its user listens there,
// which is rare: the system goes round.
func Free(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
