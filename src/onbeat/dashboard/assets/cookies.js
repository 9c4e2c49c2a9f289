// Two wishes of a browser that the server reads: the zone of times, and the theme.
const year = 31536000;

export function remember(name, value) {
  document.cookie = `${name}=${encodeURIComponent(value)}; Path=/; Max-Age=${year}; SameSite=Lax`;
}

export function cookie(name) {
  const found = document.cookie.split("; ").find((one) => one.startsWith(`${name}=`));
  return found === undefined ? "" : decodeURIComponent(found.slice(name.length + 1));
}

export const isFirstVisit = cookie("onbeat-zone") === "";
if (isFirstVisit) remember("onbeat-zone", Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC");
