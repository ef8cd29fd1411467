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
