package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerState asks the kernel about the client's end of a connection: whether the client has reset the
// connection, and whether it has closed its end. It reads nothing from the connection.
func peerState(c *net.TCPConn) (reset, ended bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false, false
	}
	var info *unix.TCPInfo
	if raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }) != nil || err != nil {
		return false, false
	}
	return info.State == unix.BPF_TCP_CLOSE, info.State == unix.BPF_TCP_CLOSE_WAIT
}

// queued returns the number of connections that the kernel holds until a listener accepts them.
func queued(l net.Listener) int {
	t, ok := l.(*net.TCPListener)
	if !ok {
		return 0
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return 0
	}
	var info *unix.TCPInfo
	if raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }) != nil || err != nil {
		return 0
	}
	return int(info.Unacked) // of a listener, what waits to be accepted
}
