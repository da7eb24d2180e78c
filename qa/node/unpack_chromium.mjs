// Unpack the browser that npm brings, with the libraries and fonts it needs, into TMPDIR, and print its path.
process.env.AWS_LAMBDA_JS_RUNTIME = "nodejs24.x"; // the variable is how its package is told to bring the libraries too
const { default: packed } = await import("@sparticuz/chromium");
console.log(JSON.stringify(await packed.executablePath()));
