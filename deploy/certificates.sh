#!/bin/sh
# Certificates for hosts and callers of livestate, with openssl: an authority of one's own, and what it vouches
# for. Files that are there stay as they are; delete one to have it made anew.
#
#   certificates.sh DIRECTORY host NAME ADDRESS ...    a host, by all names and numbers that callers connect to
#   certificates.sh DIRECTORY caller NAME              a caller, or a host as the others see it
#
# DIRECTORY gets authority.pem, authority.key (keep it where no host is), NAME.pem and NAME.key.
set -eu
umask 077

usage() {
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

# Openssl's dots are shown only where it fails.
quietly() {
    said=$("$@" 2>&1) || { echo "$said" >&2; exit 1; }
}

[ $# -ge 3 ] || usage
directory=$1 kind=$2 name=$3
shift 3
case $kind in
host) [ $# -ge 1 ] || usage ;;
caller) [ $# -eq 0 ] || usage ;;
*) usage ;;
esac

days=${DAYS:-365}
case $days${AUTHORITY_DAYS:-} in
*[!0-9]*)
    echo "DAYS and AUTHORITY_DAYS are whole numbers of days." >&2
    exit 2
    ;;
esac
key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
mkdir -p "$directory"

if ! [ -e "$directory/authority.pem" ]; then
    quietly openssl req -x509 $key -days "${AUTHORITY_DAYS:-3650}" -subj "/CN=livestate authority" \
        -addext keyUsage=critical,keyCertSign,cRLSign \
        -out "$directory/authority.pem" -keyout "$directory/authority.key"
fi
if [ -e "$directory/$name.pem" ]; then
    echo "$directory/$name.pem is there already; delete it to have it made anew." >&2
    exit 1
fi

# The first alternative name is what a host knows a caller by.
names="DNS:$name"
usages=clientAuth
if [ "$kind" = host ]; then
    usages=serverAuth,clientAuth
    for address in "$@"; do
        case $address in
        *[!0-9.]*:* | *:*) names="$names,IP:$address" ;;
        *[!0-9.]*) names="$names,DNS:$address" ;;
        *) names="$names,IP:$address" ;;
        esac
    done
fi
quietly openssl req -x509 $key -days "$days" -subj "/CN=$name" \
    -CA "$directory/authority.pem" -CAkey "$directory/authority.key" \
    -addext basicConstraints=critical,CA:FALSE -addext "subjectAltName=$names" \
    -addext "extendedKeyUsage=$usages" \
    -out "$directory/$name.pem" -keyout "$directory/$name.key"
echo "$directory/$name.pem and $directory/$name.key, good for $days days"
