package api

import (
	"time"

	"golang.org/x/sys/unix"
)

// sample asks the kernel how the connection fares. nil: it does not say.
func (cn *conn) sample() *LinkSample {
	if cn.raw.sys == nil {
		return nil
	}
	var info *unix.TCPInfo
	var err error
	cerr := cn.raw.sys.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if cerr != nil || err != nil {
		return nil
	}
	now := linkCount{segments: info.Data_segs_out, retransmits: info.Total_retrans}
	// A report of a duplicate may come after the sample that counted its
	// repeat as lost; what was counted stays.
	now.lost = cn.counted.lost
	if info.Dsack_dups < now.retransmits {
		now.lost = max(now.lost, now.retransmits-info.Dsack_dups)
	}
	s := &LinkSample{
		RTT: micros(info.Rtt), RTTVar: micros(info.Rttvar), MinRTT: micros(info.Min_rtt),
		Segments:     uint64(now.segments - cn.counted.segments),
		Retransmits:  uint64(now.retransmits - cn.counted.retransmits),
		Lost:         uint64(now.lost - cn.counted.lost),
		DeliveryRate: info.Delivery_rate,
	}
	cn.counted = now
	if shut(info) {
		s.Retransmits, s.Lost = 0, 0
	}
	return s
}

// shut reports that the other side does not read: what it has no room for is sent
// again, and says nothing of the link.
func shut(info *unix.TCPInfo) bool {
	return info.Snd_wnd == 0 && info.Notsent_bytes > 0 && info.Rwnd_limited > info.Busy_time/2
}

// micros reads the kernel's "not measured" as 0.
func micros(us uint32) time.Duration {
	if us == ^uint32(0) {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}
