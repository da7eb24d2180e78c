// What the scripts of every vendor share. Arguments: base address, key, model, then what the script says. Each script
// prints one line of JSON, its last.
export const [baseURL, apiKey, model, ...rest] = process.argv.slice(2);

export const WEATHER = "What is the weather in Paris?";
export const PARALLEL = "What is the weather in Paris and the time in Tokyo?";

// The two tools, by name, whose only parameter is a city.
export const DESCRIPTIONS = { get_weather: "The weather of a city", get_time: "The time of day in a city" };
export const CITY = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

export const collect = async (stream) => {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
};

// What `describe` makes of the error that `action` throws; null when it throws none.
export const caughtAs = async (describe, action) => {
  try {
    await action();
  } catch (error) {
    return describe(error);
  }
  return null;
};

export const print = (result) => console.log(JSON.stringify(result));
