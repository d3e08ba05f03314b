package rootfs

import (
	"bytes"
	"strconv"
)

// ownEtc writes the jail's own /etc: a user with a name and a home, names that
// resolve from files alone (with no network a resolver would only time out),
// and UTC. passwd and group are what an image brings; ours come first, so that
// uid 1000 has our name and home.
func (s *skeleton) ownEtc(passwd, group []byte) error {
	if err := s.root.Mkdir("etc", 0o755); err != nil {
		return err
	}
	for _, f := range etcFiles(passwd, group) {
		if err := s.root.WriteFile("etc/"+f.name, f.data, 0o644); err != nil {
			return err
		}
	}
	return s.root.Symlink("../usr/share/zoneinfo/Etc/UTC", "etc/localtime")
}

type etcFile struct {
	name string
	data []byte
}

func etcFiles(passwd, group []byte) []etcFile {
	return []etcFile{
		{"passwd", merge(passwdLine(), passwd, "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")},
		{"group", merge(UserName+":x:"+strconv.Itoa(GID)+":\n", group, "root:x:0:\nnogroup:x:65534:\n")},
		{"hosts", []byte("127.0.0.1 localhost " + Hostname + "\n::1 localhost ip6-localhost ip6-loopback\n")},
		{"hostname", []byte(Hostname + "\n")},
		{"nsswitch.conf", []byte("passwd: files\ngroup: files\nshadow: files\nhosts: files\nnetworks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n")},
		{"resolv.conf", []byte("# no network in this jail\n")},
	}
}

func passwdLine() string {
	return UserName + ":x:" + strconv.Itoa(UID) + ":" + strconv.Itoa(GID) + ":" + UserName + ":" + Home + ":/bin/sh\n"
}

// merge puts our line first and the image's entries (or the fallback) after.
func merge(first string, image []byte, fallback string) []byte {
	var b bytes.Buffer
	b.WriteString(first)
	if len(image) == 0 {
		b.WriteString(fallback)
	} else {
		b.Write(image)
		if image[len(image)-1] != '\n' {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}
