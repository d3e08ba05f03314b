#!/bin/sh
# offline.sh: what QEMU's guest needs beside provision.sh, which a Vagrant box has
# already: a kernel, and a start without getty, network and timers that ends in
# the job of the second disk. Runs in a chroot of the future guest.
set -eu

# The kernel is unpacked, not installed: no boot loader, no initramfs-tools.
cd /tmp
image=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
apt-get -o Acquire::Retries=3 -o APT::Sandbox::User=root download -qq "$image"
dpkg-deb -x "$image"_*.deb /tmp/kernel
cp -a /tmp/kernel/boot/vmlinuz-* /boot/
mkdir -p /lib/modules
cp -a /tmp/kernel/*/modules/* /tmp/kernel/usr/lib/modules/* /lib/modules/ 2>/dev/null || true
rm -rf /tmp/kernel "$image"_*.deb
for v in /lib/modules/*; do
	depmod "$(basename "$v")"
done

echo bed >/etc/hostname
# Not the host's resolver: there is no network.
: >/etc/resolv.conf
echo 00000000000000000000000000000bed >/etc/machine-id
echo '/dev/vda / ext4 rw,noatime 0 0' >/etc/fstab
passwd -d root >/dev/null

# Loading a hundred stock profiles takes ten seconds of emulation.
mkdir -p /etc/apparmor.d/disable
for p in /etc/apparmor.d/*; do
	[ -f "$p" ] && ln -sf "$p" /etc/apparmor.d/disable/
done
systemctl mask --quiet systemd-timesyncd.service getty@tty1.service \
	serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer \
	dpkg-db-backup.timer fstrim.timer e2scrub_all.timer \
	systemd-random-seed.service systemd-update-utmp.service \
	systemd-firstboot.service systemd-networkd.service systemd-resolved.service \
	netavark-dhcp-proxy.service netavark-dhcp-proxy.socket podman.service podman.socket \
	podman-auto-update.timer podman-auto-update.service podman-clean-transient.service podman-restart.service
# podman's GnuPG would put sockets into the cgroups of users.
systemctl --global mask --quiet podman.socket dirmngr.socket keyboxd.socket \
	gpg-agent.socket gpg-agent-browser.socket gpg-agent-extra.socket gpg-agent-ssh.socket

cat >/usr/local/lib/bed/start <<'EOF'
#!/bin/sh
# The job is a tar on the second disk.
set -eu
mkdir /bed
tar -C /bed -xf /dev/vdb
exec /bed/guest
EOF
chmod 755 /usr/local/lib/bed/start
cat >/etc/systemd/system/bed.service <<'EOF'
[Unit]
Description=the job of the test bed
After=basic.target dbus.service systemd-logind.service apparmor.service bed-swap.service systemd-user-sessions.service
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
Type=oneshot
ExecStart=/usr/local/lib/bed/start
StandardInput=null
StandardOutput=journal+console
StandardError=journal+console
TimeoutStartSec=infinity
TasksMax=infinity
EOF
cat >/etc/systemd/system/bed.target <<'EOF'
[Unit]
Description=the test bed
Requires=basic.target dbus.service systemd-logind.service apparmor.service bed-swap.service systemd-user-sessions.service bed.service
AllowIsolate=yes
EOF
systemctl set-default --quiet bed.target
