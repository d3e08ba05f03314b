#!/bin/sh
# provision.sh: makes a Debian machine the test bed of jailer, as root, however
# often. Vagrant runs it in a booted box, image.sh in the directory that becomes
# QEMU's disk: nothing here needs a running systemd.
#
# What it leaves: AppArmor, user namespaces, swap, the setuid helpers newuidmap
# and newgidmap, the programs that jails of the tests run, and two users:
#   plain   no subordinate ids
#   ranged  65536 of them
# Both have a lingering user manager, to which cpu, memory and pids are delegated.
set -eu

export DEBIAN_FRONTEND=noninteractive
# busybox-static is a program and a shell without libraries; gcc, git, node and
# python3 are what people run in jails; podman is what jailer is run in (it wants
# netavark, even for a container without network).
apt-get -o Acquire::Retries=3 update -qq
apt-get -o Acquire::Retries=3 install -y -qq --no-install-recommends \
	apparmor busybox-static crun dbus dbus-user-session e2fsprogs gcc git iproute2 kmod \
	libc6-dev libpam-systemd libseccomp2 netavark nodejs passwd podman procps \
	python3 systemd systemd-sysv uidmap util-linux

for name in plain ranged; do
	id "$name" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$name"
	# useradd hands ranges out by itself.
	sed -i "/^$name:/d" /etc/subuid /etc/subgid
	mkdir -p /var/lib/systemd/linger
	touch "/var/lib/systemd/linger/$name"
done
echo ranged:500000:65536 >>/etc/subuid
echo ranged:500000:65536 >>/etc/subgid

# The drop-in of docs/host-setup.md. cpuset and io are there for those who ask.
mkdir -p /etc/systemd/system/user@.service.d
cat >/etc/systemd/system/user@.service.d/delegate.conf <<'EOF'
[Service]
Delegate=cpu cpuset io memory pids
EOF

# A swap file has no holes, so it is made on the machine that uses it.
cat >/usr/local/sbin/bed-swap <<'EOF'
#!/bin/sh
set -eu
[ "$(wc -l </proc/swaps)" -gt 1 ] && exit 0
if [ ! -e /var/bed-swap ]; then
	fallocate -l 256M /var/bed-swap
	chmod 600 /var/bed-swap
	mkswap /var/bed-swap
fi
swapon /var/bed-swap
EOF
chmod 755 /usr/local/sbin/bed-swap
cat >/etc/systemd/system/bed-swap.service <<'EOF'
[Unit]
Description=swap of the test bed

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/bed-swap

[Install]
WantedBy=multi-user.target
EOF
systemctl enable --quiet apparmor.service bed-swap.service
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl start bed-swap.service
	for name in plain ranged; do
		systemctl restart "user@$(id -u "$name").service"
	done
fi
