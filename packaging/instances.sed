# SPDX-License-Identifier: MIT
#
# Makes haspd@.service of haspd.service: the node haspd@NAME has /etc/hasp/NAME.conf,
# /etc/default/haspd-NAME, and folders of its own, /var/lib/hasp-NAME and so on.
s|^# One node of hasp\. It needs|# One of several nodes of this machine, haspd@NAME. It needs|
s|^Description=.*|Description=hasp lock service, node %i|
s|/etc/hasp/haspd\.conf$|/etc/hasp/%i.conf|
s|/etc/default/haspd$|/etc/default/haspd-%i|
s|^StateDirectory=hasp$|&-%i|
s|^RuntimeDirectory=hasp$|&-%i|
s|^LogsDirectory=hasp$|&-%i|
