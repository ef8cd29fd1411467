// Package testports finds free ports for servers in tests and measurements.
package testports

import "net"

// Free returns n loopback ports on which no process listens. Another process may use a port before
// the caller does, but this is rare, because the system assigns ports in turn.
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
